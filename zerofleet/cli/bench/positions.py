"""`zerofleet bench positions`: positions of random games as an input file for Triton's `perf_analyzer`.

Without the file `perf_analyzer` sends random bytes, which are no positions and which the inference server refuses. An entry
holds one position, without the axis of the batch (Perf Analyzer, "Input data", section "Real input data").
"""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from games.core import Game
from zerofleet.cli import screen
from zerofleet.cli.options import GameName, Json, Parameters, Seed, chosen_game
from zerofleet.contracts.encodings import sample_positions
from zerofleet.contracts.naming import LEGAL_TENSOR, STATE_TENSOR, model_name
from zerofleet.storage.files import atomic_publish, require_place

__all__ = ["distinct_positions", "perf_data", "positions"]

_POSITIONS_A_GAME = 8  # of a guess for the number of games, which is doubled as long as positions are missing
_MOST_GAMES_A_POSITION = 8  # beyond it the game has no more positions, or hardly more


def distinct_positions(game: Game, count: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return up to `count` different positions of random games, in random order; fewer if the game has no more.

    `states` uint8 [N, packed_bytes] and `legal` int16 [N, L], padded with -1.
    """
    games = max(1, count // _POSITIONS_A_GAME)
    while True:
        states, legal = sample_positions(game, games=games, seed=seed)
        _, first = np.unique(states, axis=0, return_index=True)
        if len(first) >= count or games >= _MOST_GAMES_A_POSITION * count:
            chosen = np.random.default_rng(seed).permutation(first)[:count]
            return states[chosen], legal[chosen]
        games *= 2


def perf_data(states: np.ndarray, legal: np.ndarray) -> dict[str, Any]:
    """Return the content of an input file with these positions."""
    pairs = zip(states.tolist(), legal.tolist(), strict=True)
    return {"data": [{STATE_TENSOR: state, LEGAL_TENSOR: actions} for state, actions in pairs]}


def positions(
    game: GameName,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File to write.")],
    count: Annotated[int, typer.Option("--positions", metavar="N", min=1, help="Number of different positions.")] = 256,
    parameters: Parameters = None,
    seed: Seed = 1,
    json: Json = False,
) -> None:
    """Write positions of random games as an input file for Triton's perf_analyzer, which measures a running server."""
    require_place(out)
    made = chosen_game(game, parameters)
    states, legal = distinct_positions(made, count, seed=seed)
    atomic_publish(out, json_format.dumps(perf_data(states, legal)))
    if json:
        screen.emit_json({"model": model_name(made), "positions": len(states), "seed": seed, "file": str(out)})
        return
    screen.out().print(f"{len(states)} positions for the model {model_name(made)} in {out}")
    if len(states) < count:
        screen.note(f"{count} were wanted; random games of {model_name(made)} reach hardly more")
