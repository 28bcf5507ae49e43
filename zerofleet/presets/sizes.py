"""What any board game has at each size of machine; `tables` says where a game differs."""

from __future__ import annotations

from typing import Any

__all__ = ["PRESETS", "RESIGN_AT_MOST", "SIZES"]

PRESETS = ("tiny", "laptop", "gpu")

RESIGN_AT_MOST = -0.9
"""The worker calibrates the threshold of resignation below this on control games."""

_SELF_PLAY = {
    "full_search_share": 0.3,
    "temperature": 1.0,
    "temperature_end": 0.1,
    "temperature_plies": 20,
    "forced_playouts": 2.0,
}

SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "search": {**_SELF_PLAY, "simulations": 24, "fast_simulations": 8, "cache_positions": 1 << 14},
        "network": {"blocks": 1, "channels": 16},
        "train": {"min_samples": 1_000, "samples_per_candidate": 4_000, "average_decay": 0.99},
        "selfplay": {"lanes": 2, "slots": 64},
        "gate": {
            "simulations": 16,
            "max_pairs": 20,
            "elo0": -50.0,
            "elo1": 50.0,
            "ladder_games": 6,
            "ladder_depth": 2,
        },
    },
    "laptop": {
        "search": {
            **_SELF_PLAY,
            "simulations": 100,
            "fast_simulations": 25,
            "cache_positions": 1 << 16,
            "resign_threshold": RESIGN_AT_MOST,
        },
        "selfplay": {"lanes": 3, "slots": 512},
        "inference": {"max_batch": 512},
    },
    "gpu": {
        "search": {
            **_SELF_PLAY,
            "simulations": 400,
            "fast_simulations": 100,
            "cache_positions": 1 << 20,
            "resign_threshold": RESIGN_AT_MOST,
        },
        "network": {"blocks": 10, "channels": 128, "policy_channels": 32, "value_channels": 32, "value_hidden": 256},
        "train": {
            "batch_size": 1024,
            "min_samples": 50_000,
            "window_min": 250_000,
            "window_max": 20_000_000,
            "samples_per_candidate": 250_000,
        },
        "selfplay": {"lanes": 3, "slots": 1024},
        "gate": {"simulations": 100, "max_pairs": 400, "elo0": -10.0, "elo1": 25.0},
        "inference": {"max_batch": 4096},
    },
}
