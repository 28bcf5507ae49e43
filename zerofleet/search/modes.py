"""Selection of the compiled search by game and settings, behind one interface.

information   module        memory in addition to the trees
open          kernel        Cache: evaluations by position
determinise   determinise   Worlds: a determinisation for each simulation
predict       predict       Worlds: the predicted plays of each node
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from games import core
from games.core import Game
from zerofleet.search import kernel
from zerofleet.search.arena import Arena, Cache, History, Rows
from zerofleet.search.compiled_settings import CompiledSettings
from zerofleet.search.hidden import determinise, predict
from zerofleet.search.hidden.worlds import Worlds, allocate_worlds
from zerofleet.search.settings import SearchSettings

__all__ = ["BlockMode", "SearchMode", "mode_for"]

Memory = TypeVar("Memory", bound=Cache | Worlds)
Memory_contra = TypeVar("Memory_contra", bound=Cache | Worlds, contravariant=True)

_NEEDED = {"open": (), "predict": ("determinise", "foresee", "play_foreseen"), "determinise": ("determinise",)}


class SearchMode(Protocol[Memory_contra]):
    """Pair of compiled functions that alternate, with evaluations in between: a module of the table above."""

    def advance(
        self, game: Game, settings: CompiledSettings, arena: Arena, history: History, batch: tuple[Rows, Memory_contra]
    ) -> int:
        """Run every searching slot until it waits for the network; return the number of rows of the batch."""
        ...

    def absorb(self, arena: Arena, batch: tuple[Rows, Memory_contra], used: int, policy: np.ndarray, value: np.ndarray) -> None:
        """Write the evaluations of the rows: policy float32 [R, L], value float32 [R, P], player to move first."""
        ...


@dataclass(frozen=True, slots=True)
class BlockMode(Generic[Memory]):
    """Search mode with the memory of one block."""

    mode: SearchMode[Memory]
    batch: tuple[Rows, Memory]

    @property
    def worlds(self) -> Worlds | None:
        """Memory of a search with hidden information, else None."""
        memory = self.batch[1]
        return memory if isinstance(memory, Worlds) else None

    def advance(self, game: Game, settings: CompiledSettings, arena: Arena, history: History) -> int:
        """See `SearchMode.advance`."""
        return self.mode.advance(game, settings, arena, history, self.batch)

    def absorb(self, arena: Arena, used: int, policy: np.ndarray, value: np.ndarray) -> None:
        """See `SearchMode.absorb`."""
        self.mode.absorb(arena, self.batch, used, policy, value)

    def search_on(
        self,
        game: Game,
        settings: CompiledSettings,
        arena: Arena,
        history: History,
        answers: tuple[int, np.ndarray, np.ndarray],
    ) -> int:
        """Absorb the evaluations of the last rows (their number, policy, value) and advance; see `kernel.search_on`."""
        rows, memory = self.batch
        if isinstance(memory, Cache):
            return kernel.search_on(game, settings, arena, history, (rows, memory), answers)
        self.absorb(arena, *answers)
        return self.advance(game, settings, arena, history)


_HIDDEN: dict[str, SearchMode[Worlds]] = {"predict": predict, "determinise": determinise}


def mode_for(game: Game, settings: SearchSettings, rows: Rows, cache: Cache) -> BlockMode[Cache] | BlockMode[Worlds]:
    """Return the search mode of a block with these arrays; raises `ValueError` if it does not suit the game.

    Without simulations any setting suits, since no search can leak hidden information.
    """
    if settings.simulations:
        _require_sound(game, settings)
        if settings.information != "open":
            worlds = allocate_worlds(game, settings, slots=len(rows.states))  # a slot has one row
            return BlockMode(_HIDDEN[settings.information], (rows, worlds))
    return BlockMode(kernel, (rows, cache))


def _require_sound(game: Game, settings: SearchSettings) -> None:
    name, secrets, mode = game.spec().name, game.spec().information, settings.information
    if mode == "open" and secrets != "perfect":
        raise ValueError(
            f"{name} is a game of {secrets} information; an open search would use what is hidden from the player. "
            "Set information=determinise, information=predict, or simulations=0"
        )
    if mode != "open" and secrets == "perfect":
        raise ValueError(f"{name} is a game of perfect information, so information={mode} does not apply; set information=open")
    if missing := [rule for rule in _NEEDED[mode] if not core.has_rule(type(game), rule)]:
        raise ValueError(f"{name} has no rule {', '.join(missing)}; information={mode} needs it")
