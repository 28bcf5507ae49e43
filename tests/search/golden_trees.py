"""Whole trees of fixed searches, every field of every node and edge, as tests/golden/trees/*.json has them.

After a change that is meant:  python tests/search/golden_trees.py
and say in the commit why the trees changed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from search_bench import CONNECT_FOUR, TIC_TAC_TOE, answer_hashed, drive
from toys.counting import Counting

from games.core import Game
from zerofleet.search import SearchBlock, SearchSettings

FOLDER = Path(__file__).parents[1] / "golden" / "trees"
SLOT_FIELDS = ("status", "full", "prepared", "pending", "nodes", "edges", "ply", "budget", "version")


@dataclass(frozen=True)
class Case:
    """A search and when to look at it."""

    game: Game
    settings: SearchSettings
    opening: tuple[int, ...]
    proceed: Callable[[SearchBlock], None] = drive


def search_play_search(block: SearchBlock) -> None:
    """Search, play the most visited move, and search on in what is kept."""
    drive(block)
    analysis = block.analysis(0)
    block.play(0, int(analysis.actions[analysis.visits.argmax()]))
    drive(block)


def stop_in_flight(block: SearchBlock) -> None:
    """Stop while leaves wait, with the virtual losses in place."""
    for _ in range(4):
        block.absorb(*answer_hashed(block.advance(), block.game.spec().num_players))
    block.advance()


PLAIN = {"dirichlet_fraction": 0.0, "temperature": 0.0}
CASES = {
    "tic_tac_toe_plain": Case(TIC_TAC_TOE, SearchSettings(simulations=40, **PLAIN), (4, 0)),
    "tic_tac_toe_near_the_end": Case(TIC_TAC_TOE, SearchSettings(simulations=60, **PLAIN), (0, 1, 2, 4)),
    "connect_four_noise_and_forcing": Case(CONNECT_FOUR, SearchSettings(simulations=48, forced_playouts=2.0), (3, 3, 2)),
    "connect_four_gumbel": Case(CONNECT_FOUR, SearchSettings(simulations=32, root_policy="gumbel", gumbel_considered=4), (3,)),
    "connect_four_kept_subtree": Case(CONNECT_FOUR, SearchSettings(simulations=40), (), search_play_search),
    "connect_four_in_flight": Case(CONNECT_FOUR, SearchSettings(simulations=60, leaves_per_game=6), (0,), stop_in_flight),
    "tic_tac_toe_without_proofs": Case(TIC_TAC_TOE, SearchSettings(simulations=60, prove_values=False, **PLAIN), (0, 1, 2, 4)),
    "connect_four_gumbel_without_proofs": Case(
        CONNECT_FOUR, SearchSettings(simulations=32, root_policy="gumbel", gumbel_considered=4, prove_values=False), (3,)
    ),
    "three_players": Case(Counting(), SearchSettings(simulations=40, **PLAIN), (1,)),
}


def run(case: Case) -> dict[str, Any]:
    """Return the slot, nodes, positions and edges of a case, a list for each field."""
    block = SearchBlock(case.game, case.settings, slots=1)
    block.begin(0, seed=20, versions=[1] * case.game.spec().num_players, opening=case.opening, hold=True)
    case.proceed(block)
    arena = block._arena
    slot = arena.slots[0]
    return {
        "settings": case.settings.model_dump(mode="json"),
        "opening": list(case.opening),
        "slot": {name: int(slot[name]) for name in SLOT_FIELDS},
        "nodes": _columns(arena.nodes[0, : slot["nodes"]]) | {"state": arena.states[0, : slot["nodes"]].tolist()},
        "edges": _columns(arena.edges[0, : slot["edges"]]),
    }


def _columns(records: np.ndarray) -> dict[str, Any]:
    return {name: records[name].tolist() for name in sorted(records.dtype.names or ())}


def as_text(tree: dict[str, Any]) -> str:
    """Return JSON with one field a line."""
    parts = []
    for name, part in tree.items():
        if isinstance(part, dict):
            lines = ",\n".join(f"    {json.dumps(field)}: {json.dumps(column)}" for field, column in part.items())
            parts.append(f"  {json.dumps(name)}: {{\n{lines}\n  }}")
        else:
            parts.append(f"  {json.dumps(name)}: {json.dumps(part)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, case in CASES.items():
        path = FOLDER / f"{name}.json"
        text = as_text(run(case))
        changed = not path.exists() or path.read_text() != text
        path.write_text(text)
        sys.stdout.write(f"{'written ' if changed else 'the same'} {path}\n")
