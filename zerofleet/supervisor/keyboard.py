"""Keys pressed on the terminal, one by one, while a live page is shown.

Ctrl-C and Ctrl-Z keep their meaning. Nothing is read while the process is in the background: its terminal belongs to another
program, and reading from it would stop the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import tty
from collections.abc import Callable
from typing import Any

__all__ = ["Keyboard", "terminal_keyboard"]

KEYS_AT_ONCE = 64
ESCAPE = b"\x1b"


class Keyboard:
    """Keys of a terminal; used inside one event loop."""

    def __init__(self, terminal: int) -> None:
        """`terminal` is the file descriptor of a terminal."""
        self._terminal = terminal
        self._former: list[Any] | None = None
        self._press: Callable[[str], None] | None = None
        self._is_reading = False

    def open(self, press: Callable[[str], None]) -> None:
        """Call `press` with every key from now on, in the running event loop."""
        self._press = press
        self.refresh()

    def refresh(self) -> None:
        """Read keys if the process is in the foreground, also when it has just returned there; else stop reading."""
        if self._press is None:
            return
        if not self._in_foreground():
            self._stop_reading()
            return
        with contextlib.suppress(OSError, termios.error):  # the terminal is closed
            self._former = self._former or termios.tcgetattr(self._terminal)
            tty.setcbreak(self._terminal, termios.TCSANOW)  # a shell resets it when it stops and continues the process
            if not self._is_reading:
                asyncio.get_running_loop().add_reader(self._terminal, self._read)
                self._is_reading = True

    def close(self) -> None:
        """Restore the terminal."""
        self._press = None
        self._stop_reading()
        if self._former is not None and self._in_foreground():
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(self._terminal, termios.TCSANOW, self._former)

    def _read(self) -> None:
        if not self._in_foreground():
            self._stop_reading()
            return
        try:
            keys = os.read(self._terminal, KEYS_AT_ONCE)
        except OSError:
            keys = b""
        if not keys or self._press is None:  # the terminal is closed
            self._press = None
            self._stop_reading()
            return
        if not keys.startswith(ESCAPE):  # arrows and the like
            for key in keys.decode(errors="ignore"):
                self._press(key)

    def _stop_reading(self) -> None:
        if self._is_reading:
            asyncio.get_running_loop().remove_reader(self._terminal)
            self._is_reading = False

    def _in_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self._terminal) == os.getpgrp()
        except OSError:  # not the controlling terminal, or closed
            return False


def terminal_keyboard() -> Keyboard | None:
    """Return the keyboard of standard input, None if that is not a terminal."""
    try:
        return Keyboard(sys.stdin.fileno()) if sys.stdin.isatty() else None
    except (AttributeError, OSError, ValueError):  # standard input is absent or closed
        return None
