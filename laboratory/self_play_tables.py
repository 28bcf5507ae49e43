"""Tables of behaviour of a stage's self-play: those that `zerofleet behaviour` gives of a run, from its log and its models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from games.core import Game
from laboratory.networks import Networks
from zerofleet.contracts.naming import model_name
from zerofleet.errors import InvalidRequest
from zerofleet.storage.model_store.directory import DirectoryStore
from zerofleet.storage.runs import RunPaths
from zerofleet.strength.behaviour.catalogue import OPENINGS, new_collector
from zerofleet.strength.behaviour.collector import Reading, collect
from zerofleet.strength.behaviour.finished import FinishedGame
from zerofleet.strength.behaviour.openings import ask, openings_table, played_first
from zerofleet.strength.behaviour.sources import logged_games
from zerofleet.strength.behaviour.tables import BehaviourTable, as_stored

__all__ = ["self_play_tables"]

NEWEST = 1_000
"""Games of a table, as the command has by default."""
_VERSIONS, _TOP = 5, 5  # of a table of openings: the page shows the first, the last and some between
_MAX_BATCH = 1
_EVERY = 100_000  # games, more than any stage plays


async def self_play_tables(names: Sequence[str], game: Game, run: RunPaths) -> list[dict[str, Any]]:
    """Return the tables of the newest games of self-play, as `as_stored` writes them; those of openings are of all games.

    Raises `InvalidRequest` for a table that does not suit the game, or a run without a game. Cancellation: nothing is kept.
    """
    if not names:
        return []
    found = list(logged_games(run.replay, _EVERY if OPENINGS in names else NEWEST))
    if not found:
        raise InvalidRequest(f"{run.root} has no game of self-play, of which the tables {', '.join(names)} would be")
    tables = []
    for name in names:
        if name == OPENINGS:
            tables.append(await _openings(game, found, run))
        else:
            tables.append(collect(lambda name=name: new_collector(name, game, Reading()), found[-NEWEST:]))  # type: ignore[misc]
    return [as_stored(table) for table in tables]


async def _openings(game: Game, found: Sequence[FinishedGame], run: RunPaths) -> BehaviourTable:
    """Return priors and first moves of some versions, evenly spaced."""
    store = DirectoryStore(run.models)
    played = played_first(found)
    stored = sorted(set(played) & set(store.versions(model_name(game))))
    step = max(1, len(stored) - 1) / max(1, _VERSIONS - 1)
    shown = sorted({stored[min(len(stored) - 1, round(place * step))] for place in range(_VERSIONS)}) if stored else []
    networks = Networks(store, model_name(game), max_batch=_MAX_BATCH)
    for version in shown:
        networks.load(version)
    asked = await ask(game, networks, shown)
    return openings_table(game, {version: played[version] for version in shown}, asked, top=_TOP)
