"""Tables of behaviour of a stage's self-play: those that `zerofleet behaviour` gives of a run, from its log and its models."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from games.core import Game
from laboratory.networks import Networks
from zerofleet.contracts.naming import model_name
from zerofleet.errors import InvalidRequest
from zerofleet.storage.model_store.directory import DirectoryStore
from zerofleet.storage.runs import RunPaths
from zerofleet.strength.behaviour.catalogue import OPENINGS, check_suits, new_collector
from zerofleet.strength.behaviour.collector import Reading, collect
from zerofleet.strength.behaviour.finished import FinishedGame
from zerofleet.strength.behaviour.openings import ask, openings_table, played_first
from zerofleet.strength.behaviour.sources import logged_games
from zerofleet.strength.behaviour.tables import BehaviourTable, as_stored

__all__ = ["check_tables", "self_play_tables"]

NEWEST = 1_000
"""Games of a table, as the command has by default."""
_VERSIONS, _TOP = 5, 5  # of a table of openings: the page shows the first, the last and some between
_MAX_BATCH = 1
_EVERY = 1_000_000  # games, more than any stage plays


def check_tables(names: Sequence[str], game: Game) -> None:
    """Raise `InvalidRequest` for a table that is unknown or does not suit the game: before the training, not after it."""
    for name in names:
        check_suits(name, game, Reading())


async def self_play_tables(names: Sequence[str], game: Game, run: RunPaths) -> list[dict[str, Any]]:
    """Return the tables of the newest games of self-play, as `as_stored` writes them; those of openings are of all games.

    Raises `InvalidRequest` for a table that does not suit the game, or a run without a game. Cancellation: nothing is kept.
    """
    if not names:
        return []
    newest: deque[FinishedGame] = deque(maxlen=NEWEST)  # the states of all games may need gigabytes
    first_moves: dict[int, Counter[int]] = {}
    for finished in logged_games(run.replay, _EVERY if OPENINGS in names else NEWEST):
        newest.append(finished)
        for version, counts in played_first([finished]).items():
            first_moves.setdefault(version, Counter()).update(counts)
    if not newest:
        raise InvalidRequest(f"{run.root} has no game of self-play, of which the tables {', '.join(names)} would be")
    tables = [
        await _openings(game, first_moves, run)
        if name == OPENINGS
        else collect(partial(new_collector, name, game, Reading()), newest)
        for name in names
    ]
    return [as_stored(table) for table in tables]


async def _openings(game: Game, played: Mapping[int, Counter[int]], run: RunPaths) -> BehaviourTable:
    """Return priors and first moves of some versions, evenly spaced."""
    store = DirectoryStore(run.models)
    stored = sorted(set(played) & set(store.versions(model_name(game))))
    shown = _spread(stored)
    networks = Networks(store, model_name(game), max_batch=_MAX_BATCH)
    for version in shown:
        networks.load(version)
    asked = await ask(game, networks, shown)
    return openings_table(game, {version: played[version] for version in shown}, asked, top=_TOP)


def _spread(versions: Sequence[int]) -> list[int]:
    """Return at most `_VERSIONS` of some versions, ascending, evenly spaced from the first to the last."""
    if len(versions) <= _VERSIONS:
        return list(versions)
    return [versions[round(place * (len(versions) - 1) / (_VERSIONS - 1))] for place in range(_VERSIONS)]
