"""Presentation of a run: a live page on a terminal, plain lines elsewhere, events in both."""

from __future__ import annotations

import contextlib
from collections import deque
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live

from zerofleet.supervisor.keyboard import Keyboard
from zerofleet.supervisor.lines import progress_line
from zerofleet.supervisor.readings import Readings
from zerofleet.supervisor.screen import PAGES, Event, Title, draw
from zerofleet.supervisor.words import clock

__all__ = ["LivePage", "PlainLines", "Presenter", "presenter"]

EVENTS_KEPT = 50
LINE_EVERY_S = 10.0


class PlainLines:
    """Presenter of a line every ten seconds and one per event; a context manager."""

    def __init__(self, console: Console, title: Title) -> None:
        self._console = console
        self._title = title
        self._next_s = 0.0

    def __enter__(self) -> Self:
        self._print(f"zerofleet run of {self._title.game}, preset {self._title.preset}, in {self._title.run_dir}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Do nothing: no resource is open."""

    def show(self, now: Readings) -> None:
        """Print a progress line if one is due."""
        has_news = now.games + now.step or any(service.compiling for service in now.services)
        if now.elapsed_s >= self._next_s and has_news:
            self._next_s = now.elapsed_s + LINE_EVERY_S
            self._print(progress_line(now))

    def tell(self, at_s: float, text: str) -> None:
        """Print an event."""
        self._print(f"{clock(at_s)}  {text}")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class LivePage:
    """Presenter of the pages of `screen` on the terminal's alternate screen; a context manager.

    With a keyboard, the number of a page shows that page, and Tab the next one.
    """

    def __init__(self, console: Console, title: Title, keyboard: Keyboard | None = None) -> None:
        self._console = console
        self._title = title
        self._keyboard = keyboard
        self._page = PAGES[0]
        self._events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self._last = Readings()
        self._live = Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)

    def __enter__(self) -> Self:
        self._live.__enter__()
        if self._keyboard is not None:
            self._keyboard.open(self.press)
        self._draw()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._keyboard is not None:
            self._keyboard.close()
        with contextlib.suppress(OSError):  # the terminal is closed
            self._live.__exit__(kind, error, trace)

    def show(self, now: Readings) -> None:
        """Draw a reading."""
        self._last = now
        if self._keyboard is not None:
            self._keyboard.refresh()
        self._draw()

    def tell(self, at_s: float, text: str) -> None:
        """Add an event and draw it."""
        self._events.append(Event(at_s, text))
        self._draw()

    def press(self, key: str) -> None:
        """Show the page of a key; other keys have no effect."""
        place = PAGES.index(self._page)
        chosen = {"\t": PAGES[(place + 1) % len(PAGES)], **{str(n): name for n, name in enumerate(PAGES, start=1)}}
        if (page := chosen.get(key, self._page)) != self._page:
            self._page = page
            self._draw()

    def _draw(self) -> None:
        columns, lines = self._console.size
        page = draw(
            self._title,
            self._last,
            list(self._events),
            columns=columns,
            lines=lines,
            page=self._page,
            has_keys=self._keyboard is not None,
        )
        self._live.update(page, refresh=True)


Presenter = LivePage | PlainLines


def presenter(console: Console, title: Title, keyboard: Keyboard | None = None) -> Presenter:
    """Return the presenter for a console; a keyboard selects the page of a terminal."""
    if console.is_terminal and not console.is_dumb_terminal:
        return LivePage(console, title, keyboard)
    return PlainLines(console, title)
