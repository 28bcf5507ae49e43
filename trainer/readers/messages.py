"""Messages between a trainer and its processes for reading, pickled: both are of the same release, on the same machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from games.core import Game, make
from games.positions import parameters_text
from trainer.readers.base import ReadGame
from zerofleet.contracts.records import ValidatedGame
from zerofleet.presets.warm_start import WarmStartSettings, game_of

__all__ = ["Answers", "Orders"]


@dataclass(frozen=True, slots=True)
class Orders:
    """First message to a process: what to read. Every further one is a list of `Entry`."""

    game: str
    parameters: dict[str, str]
    warm_start: WarmStartSettings
    take: Callable[[ValidatedGame], Any]
    """See `RecordReader`; a function that pickle can send."""

    @classmethod
    def of(cls, game: Game, warm_start: WarmStartSettings, take: Callable[[ValidatedGame], Any]) -> Orders:
        """Return the orders for a run of `game`."""
        return cls(game.spec().name, parameters_text(game), warm_start, take)

    def games(self) -> tuple[Game, Game]:
        """Return the game of the run, and that of the agents of its warm start."""
        game = make(self.game, **self.parameters)
        return game, game_of(game, self.warm_start)


@dataclass(frozen=True, slots=True)
class Answers:
    """Answer to a list of entries: a game for each, or reason and text of its refusal."""

    games: Sequence[ReadGame | tuple[str, str]] = ()
    fault: str = ""
    """Fault in the game's own code: nothing was read."""
    error: str = ""
    """Traceback of an error of the reader itself: nothing was read."""
