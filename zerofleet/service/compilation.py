"""Compilation in this process, as numba reports it: how many functions, and for how long.

Functions that are loaded from the cache are not reported. Compilations that follow one another within a second are one: between
them compiled code runs, or is loaded.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from numba.core import event

from zerofleet.service.compilation_note import PATIENCE_S, Compilation, note_path, write_note

__all__ = ["CompilationMeter", "compilation_meter", "report_compilation"]

PAUSE_S = 1.0
"""Time without compilation after which the next one is another."""
REPORT_EVERY_S = 1.0


class CompilationMeter(event.Listener):
    """Listener of numba's compiler; safe in threads."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, began: Callable[[], None] = lambda: None) -> None:
        """Create it; `began` is called in the compiling thread when a compilation begins."""
        self._clock = clock
        self._began = began
        self._guard = threading.Lock()
        self._depth = 0
        self._functions = 0
        self._began_s = 0.0
        self._ended_s = -PAUSE_S

    def on_start(self, found: event.Event) -> None:
        """Count a function that is being compiled; it may compile others."""
        with self._guard:
            is_new = not self._is_compiling()
            if is_new:
                self._began_s, self._functions = self._clock(), 0
            self._depth += 1
        if is_new:
            self._began()

    def on_end(self, found: event.Event) -> None:
        """Count a compiled function."""
        with self._guard:
            self._depth -= 1
            self._functions += 1
            self._ended_s = self._clock()

    def now(self) -> Compilation | None:
        """Return the compilation in progress; None without one."""
        with self._guard:
            if not self._is_compiling():
                return None
            return Compilation(self._functions, self._clock() - self._began_s)

    def _is_compiling(self) -> bool:
        return self._depth > 0 or self._clock() - self._ended_s < PAUSE_S


@functools.cache
def compilation_meter() -> CompilationMeter:
    """Return the meter of this process, which listens from the first call on."""
    meter = CompilationMeter()
    event.register("numba:compile", meter)  # type: ignore[no-untyped-call]
    return meter


def report_compilation(announce: Path | None) -> None:
    """Keep a note of every compilation of this process beside its announce file; without one do nothing.

    A thread writes the note once a second while something is compiled, and removes it at the end.
    """
    if announce is None:
        return
    path = note_path(announce)

    def begin() -> None:
        threading.Thread(target=_report, args=(meter, path), name="compilation-note", daemon=True).start()

    meter = CompilationMeter(began=begin)
    event.register("numba:compile", meter)  # type: ignore[no-untyped-call]


def _report(meter: CompilationMeter, path: Path) -> None:
    """Write the note until the compilation ends; a disk that is full, or a removed run, costs the note alone."""
    with contextlib.suppress(OSError):
        while (found := meter.now()) is not None:
            if found.seconds >= PATIENCE_S:
                write_note(path, found, pid=os.getpid())
            time.sleep(REPORT_EVERY_S)
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
