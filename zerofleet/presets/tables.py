"""Where a game differs from any other board game (`sizes`): by game, by size, by part.

What decides:

- Games with many legal actions or many plies have smaller blocks. A slot holds a tree (a search's visits times the moves of a
  position) and the game's searches so far (its plies times the most legal actions); a worker is to stay below 500 MB on two
  cores. Fewer games at once also end sooner, and the learner waits less for the first ones.
- Requests are a block's leaves, so `max_batch` follows `slots` where no accelerator wants more.
- Random openings keep self-play from running down one line; dealt games have their deals for that.
- A cache pays where positions recur among the games of a block: hardly in long games, never where a history is the position.
"""

from __future__ import annotations

from typing import Any

__all__ = ["EVERY_SIZE", "TABLES"]

EVERY_SIZE = "every size"

Table = dict[str, dict[str, Any]]

_NEVER_RESIGN = {"resign_threshold": -1.0}

# For a first look at a long game: so few games show little, and whoever is not behind in them passes.
_QUICK_GATE = {"mode": "share", "share": 0.5}

_TIC_TAC_TOE: Table = {
    EVERY_SIZE: {
        "search": {
            **_NEVER_RESIGN,
            "simulations": 50,
            "fast_simulations": 15,
            "temperature_plies": 6,
            "cache_positions": 1 << 13,
        },
        "network": {"blocks": 2, "channels": 32, "policy_channels": 8, "value_channels": 8, "value_hidden": 64},
        "train": {
            "batch_size": 256,
            "min_samples": 1_000,
            "window_min": 10_000,
            "window_max": 2_000_000,
            "samples_per_candidate": 10_000,
            "average_decay": 0.99,
        },
        "selfplay": {"lanes": 2, "slots": 128, "opening_plies": 2},
        # Good players draw: "not weaker" is then all that can be shown, and a candidate that always draws passes.
        "gate": {
            "simulations": 16,
            "opening_plies": 2,
            "max_pairs": 50,
            "elo0": -50.0,
            "elo1": 25.0,
            "ladder_games": 10,
            "ladder_depth": 5,
        },
        "inference": {"max_batch": 256},
    },
    "tiny": {
        "network": {"blocks": 1, "channels": 16},
        "train": {"samples_per_candidate": 2_000},
        "selfplay": {"slots": 64},
    },
}

_CONNECT_FOUR: Table = {EVERY_SIZE: {"selfplay": {"opening_plies": 4}}}

_OTHELLO: Table = {
    EVERY_SIZE: {"search": {"temperature_plies": 16}, "selfplay": {"opening_plies": 4}, "gate": {"opening_plies": 6}},
    "laptop": {"selfplay": {"slots": 256}, "inference": {"max_batch": 256}},
    "gpu": {"search": {"cache_positions": 1 << 18}, "selfplay": {"slots": 256}},
}

_ABALONE: Table = {
    EVERY_SIZE: {
        "search": {"temperature_plies": 60},
        "selfplay": {"opening_plies": 4},
        "gate": {"opening_plies": 6},
        # Two plies of foresight against none: nearly every game is won, and the winner's moves are worth learning.
        "warm_start": {"agents": "abalone_search:2,evaluation=strong,random", "policy": "one_hot", "winner_only": True},
    },
    "tiny": {
        "search": {"cache_positions": 1 << 12},
        "selfplay": {"slots": 24},
        "gate": {**_QUICK_GATE, "max_pairs": 10, "ladder_depth": 1},
    },
    "laptop": {
        "search": {"cache_positions": 1 << 14},
        "network": {"blocks": 3},
        "train": {"window_max": 1_000_000},
        "selfplay": {"slots": 64},
        "gate": {"ladder_depth": 2},
        "inference": {"max_batch": 128},
    },
    "gpu": {
        "search": {"cache_positions": 1 << 16},
        "train": {"window_max": 4_000_000},
        "selfplay": {"slots": 96},
        "gate": {"ladder_depth": 3},
    },
}

# Three seats and 320 actions; a game takes some 50 plies once it is played well, and all 120 before. Two random moves of each
# player, as in the document's evaluations. A laptop has a target in every move (sequential halving makes 32 visits enough) and
# plays on with each candidate at once: a gate waits long for games in which hardly anybody arrives. Its first network learns
# from agents: one with random weights plays games that are all stopped with nothing for anybody. Those agents need more than
# 120 plies as well.
_STAR37: Table = {
    EVERY_SIZE: {
        "search": {"temperature_plies": 45},
        "selfplay": {"opening_plies": 6},
        "gate": {"opening_plies": 6},
        "warm_start": {"agents": "initialize", "game_parameters": "moves_cap=200"},
    },
    "tiny": {"selfplay": {"slots": 32}, "gate": {**_QUICK_GATE, "max_pairs": 8}},
    "laptop": {
        "search": {"root_policy": "gumbel", "simulations": 32, "full_search_share": 1.0, "forced_playouts": 0.0},
        "selfplay": {"slots": 64},
        "gate": {"mode": "off"},
        "inference": {"max_batch": 128},
        "warm_start": {"games": 200},
    },
    "gpu": {"search": {"cache_positions": 1 << 17}, "selfplay": {"slots": 128}},
}

# Chains of jumps: some hundred legal moves, and beginners wander until the ply cap.
_RHOMBUS: Table = {
    EVERY_SIZE: {
        "search": {"temperature_plies": 30},
        "selfplay": {"lanes": 2, "opening_plies": 4},
        "gate": {"opening_plies": 6},
    },
    "tiny": {
        "search": {"simulations": 16, "fast_simulations": 6, "cache_positions": 1 << 11},
        "selfplay": {"slots": 16},
        "gate": {**_QUICK_GATE, "max_pairs": 8, "ladder_games": 2, "ladder_depth": 1},
    },
    "laptop": {
        "search": {"cache_positions": 1 << 13},
        "train": {"window_max": 500_000},
        "selfplay": {"slots": 32},
        "gate": {"ladder_depth": 2},
        "inference": {"max_batch": 64},
    },
    "gpu": {
        "search": {"cache_positions": 1 << 15},
        "train": {"window_max": 2_000_000},
        "selfplay": {"slots": 64},
        "gate": {"ladder_depth": 2},
    },
}

_STAR121: Table = {
    EVERY_SIZE: {
        "search": {"temperature_plies": 40},
        "selfplay": {"lanes": 2, "opening_plies": 6},
        "gate": {"opening_plies": 6},
    },
    "tiny": {
        "search": {"simulations": 16, "fast_simulations": 6, "cache_positions": 1 << 10},
        "selfplay": {"slots": 12},
        "gate": {**_QUICK_GATE, "max_pairs": 6, "ladder_games": 2, "ladder_depth": 1},
    },
    "laptop": {
        "search": {"cache_positions": 1 << 12},
        "train": {"window_max": 300_000},
        "selfplay": {"slots": 32},
        "gate": {"max_pairs": 40, "ladder_depth": 1},
        "inference": {"max_batch": 64},
    },
    "gpu": {
        "search": {"cache_positions": 1 << 14},
        "train": {"window_max": 1_000_000},
        "selfplay": {"slots": 48},
        "gate": {"ladder_depth": 2},
    },
}

# Flat bits, not a board: dense layers. A simulation evaluates every opponent of the round as well, hence few of them.
_TAKE_SIX: Table = {
    EVERY_SIZE: {
        "search": {**_NEVER_RESIGN, "temperature_end": 0.5, "temperature_plies": 30, "cache_positions": 0},
        "network": {"kind": "perceptron", "hidden": (512, 256), "heads": ("opponents",)},
        "train": {"learning_rate": 1e-3},
        "gate": {"opening_plies": 0},
    },
    "tiny": {
        "search": {"simulations": 8, "fast_simulations": 4},
        "network": {"hidden": (128, 64)},
        "gate": {**_QUICK_GATE, "simulations": 4, "max_pairs": 10},
    },
    "laptop": {
        "search": {"root_policy": "gumbel", "gumbel_considered": 8, "simulations": 20, "full_search_share": 1.0},
        "selfplay": {"slots": 128},
        "gate": {"simulations": 16, "max_pairs": 60},
        "inference": {"max_batch": 256},
    },
    "gpu": {
        "search": {"simulations": 128, "fast_simulations": 32},
        "network": {"hidden": (1024, 512, 256)},
        "selfplay": {"slots": 512},
        "gate": {"simulations": 32},
    },
}

# Nothing to search: the policy is drawn from, and what would have beaten the other's choice is learnt. The latest network
# plays on at once, as nobody is stronger than one who cannot be guessed.
_ROCK_PAPER_SCISSORS: Table = {
    EVERY_SIZE: {
        "search": {
            **_NEVER_RESIGN,
            "information": "open",
            "simulations": 0,
            "fast_simulations": 0,
            "full_search_share": 1.0,
            "temperature_end": 1.0,
            "temperature_plies": 0,
            "cache_positions": 0,
        },
        "network": {"kind": "perceptron", "hidden": (100, 30), "activation": "tanh"},
        "train": {
            "policy_target": "counter",
            "value_weight": 0.0,
            "batch_size": 256,
            "learning_rate": 1e-3,
            "min_samples": 4_000,
            "window_min": 20_000,
            "window_max": 500_000,
            "samples_per_candidate": 20_000,
        },
        "selfplay": {"lanes": 2, "slots": 64},
        "gate": {"mode": "off", "simulations": 0, "opening_plies": 0, "ladder_games": 20},
        "inference": {"max_batch": 256},
    },
    "tiny": {"train": {"min_samples": 1_000, "samples_per_candidate": 8_000}, "selfplay": {"slots": 16}},
}

TABLES: dict[str, Table] = {
    "abalone": _ABALONE,
    "chinese_checkers": _STAR121,
    "chinese_checkers_rhombus": _RHOMBUS,
    "chinese_checkers_star37": _STAR37,
    "connect_four": _CONNECT_FOUR,
    "othello": _OTHELLO,
    "rock_paper_scissors": _ROCK_PAPER_SCISSORS,
    "take_six": _TAKE_SIX,
    "tic_tac_toe": _TIC_TAC_TOE,
}
