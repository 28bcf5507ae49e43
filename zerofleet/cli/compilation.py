"""Announcement of compilation on a terminal: rules and search compile once per machine and version, and people wait for it.

numba reports each function that it compiles; functions loaded from the cache are not reported. A person reads a note after the
first second of compilation, and the progress every few seconds.
"""

from __future__ import annotations

import sys
import threading
import time

from numba.core import event

from zerofleet.cli import screen
from zerofleet.service.compilation_note import PATIENCE_S, announcement

__all__ = ["announce_compilation"]

TELL_EVERY_S = 5.0
_TICK_S = 0.25


class _Announcer(event.Listener):
    """Listener of numba's compiler; a daemon thread tells the time that passes in it."""

    def __init__(self, game: str) -> None:
        self._game = game
        self._depth = 0
        self._functions = 0
        self._thread: threading.Thread | None = None

    def turn_to(self, game: str) -> None:
        """Name the game that is compiled from here on; its own count begins where it is another one."""
        if game != self._game:
            self._game, self._functions = game, 0

    def on_start(self, found: event.Event) -> None:
        """Count a function that is being compiled; it may compile others."""
        self._depth += 1
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="compilation", daemon=True)
            self._thread.start()

    def on_end(self, found: event.Event) -> None:
        """Count a compiled function."""
        self._depth -= 1
        self._functions += 1

    def _watch(self) -> None:
        game, spent_s, told_s = self._game, 0.0, 0.0
        while True:
            time.sleep(_TICK_S)
            if not self._depth:
                continue
            if game != self._game:
                game, spent_s, told_s = self._game, 0.0, 0.0
            spent_s += _TICK_S
            if not told_s and spent_s >= PATIENCE_S:
                screen.note(f"compiling {announcement(game)}")
                told_s = spent_s
            elif told_s and spent_s - told_s >= TELL_EVERY_S:
                plural = "" if self._functions == 1 else "s"
                screen.note(f"compiling {game}: {self._functions} function{plural} in {spent_s:.0f} s")
                told_s = spent_s


_listening: list[_Announcer] = []


def announce_compilation(game: str) -> None:
    """Announce what this process compiles from here on as that of a game, if a person reads standard error."""
    if not sys.stderr.isatty():
        return
    if _listening:
        _listening[0].turn_to(game)
        return
    _listening.append(_Announcer(game))
    event.register("numba:compile", _listening[0])  # type: ignore[no-untyped-call]
