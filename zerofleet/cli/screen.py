"""Output of commands: tables and notes on a terminal, plain lines in a pipe, JSON for scripts.

Results go to standard output, everything else (progress, notes, errors) to standard error: `zerofleet … --json | jq` works, and
progress never ends up in a file.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["Meter", "emit_json", "emit_value", "error", "meter", "note", "out", "share_bar", "table", "value_bar"]

PLAIN_LINE_INTERVAL_S = 5.0  # between progress lines when standard error is not a terminal
BAR_INTERVAL_S = 0.1  # between remarks beside a progress bar, which is drawn as often
PIPE_COLUMNS = 1000  # wide enough that no table is truncated
BAR_CELLS = 20


def out() -> Console:
    """Return the console of standard output. Tables in a pipe keep their width instead of 80 columns."""
    return _console(sys.stdout.isatty(), to_errors=False)


def notes() -> Console:
    """Return the console of standard error."""
    return _console(sys.stderr.isatty(), to_errors=True)


@functools.cache
def _console(is_terminal: bool, *, to_errors: bool) -> Console:
    width = None if is_terminal else PIPE_COLUMNS
    # A name, such as that of a run directory, may hold brackets, which rich would take for markup.
    return Console(stderr=to_errors, markup=False, emoji=False, highlight=False, soft_wrap=not is_terminal, width=width)


def note(text: str) -> None:
    """Print a remark on standard error."""
    notes().print(text, style="dim", markup=False)


def error(text: str) -> None:
    """Print `error: …` on standard error, neither truncated nor wrapped inside a path."""
    line = Text("error: ", style="bold red")
    line.append(text, style="default")
    notes().print(line, soft_wrap=True)


def emit_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print one JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2 if sys.stdout.isatty() else None, allow_nan=False) + "\n")


def emit_value(value: BaseModel) -> None:
    """Print a value as one JSON object on standard output; it has the schema of the API, where that returns the value too."""
    emit_json(value.model_dump(mode="json"))


def table(*columns: str, title: str | None = None) -> Table:
    """Return an empty table in the house style; `>` before a column's name aligns it to the right."""
    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for column in columns:
        made.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left", no_wrap=True)
    return made


def value_bar(value: float, cells: int = BAR_CELLS, *, style: str = "cyan") -> Text:
    """Draw a value in [-1, 1]; the thick part of the bar belongs to the player whose value it is."""
    filled = round((max(-1.0, min(1.0, value)) + 1) / 2 * cells)
    return Text.assemble(("━" * filled, style), ("─" * (cells - filled), "bright_black"))


def share_bar(share: float, cells: int = BAR_CELLS) -> Text:
    """Draw a share in [0, 1], empty for 0."""
    return Text("━" * round(max(0.0, min(1.0, share)) * cells), style="cyan")


class _Times(ProgressColumn):
    """Time since the begin of a task, and an estimate of the time left once there is one."""

    max_refresh = 0.5  # seconds between estimates

    def render(self, task: Task) -> Text:
        """Return `0:10 so far, 0:05 left`."""
        left = "" if task.time_remaining is None or task.finished else f", {_clock(task.time_remaining)} left"
        return Text(f"{_clock(task.elapsed or 0.0)} so far{left}", style="progress.elapsed")


def _clock(seconds: float) -> str:
    hours, minutes = divmod(int(seconds) // 60, 60)
    return f"{hours}:{minutes:02}:{int(seconds) % 60:02}" if hours else f"{minutes}:{int(seconds) % 60:02}"


class Meter:
    """Step counter of a task, from `meter`; `advance` is cheap enough for every step."""

    def __init__(self, label: str, total: int | None, progress: Progress | None) -> None:
        self._label = label
        self._total = total
        self._progress = progress
        self._task = progress.add_task(label, total=total) if progress is not None else None
        self._done = 0
        self._spoke_at_s = time.monotonic()

    def advance(self, steps: int = 1, remark: str | Callable[[], str] = "") -> None:
        """Count `steps` more; `remark` is shown after the numbers, and made only then where it is a function."""
        self._done += steps
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, advance=steps)
            if isinstance(remark, str) or self._is_due(BAR_INTERVAL_S):
                self._progress.update(self._task, description=f"{self._label} {_made(remark)}".rstrip())
        elif self._is_due(PLAIN_LINE_INTERVAL_S):
            of = f"/{self._total}" if self._total is not None else ""
            note(f"{self._label}: {self._done}{of} {_made(remark)}".rstrip())

    def _is_due(self, interval_s: float) -> bool:
        """Return whether nothing was shown for `interval_s`; the time begins again then."""
        now_s = time.monotonic()
        if now_s - self._spoke_at_s < interval_s:
            return False
        self._spoke_at_s = now_s
        return True


def _made(remark: str | Callable[[], str]) -> str:
    return remark if isinstance(remark, str) else remark()


@contextlib.contextmanager
def meter(label: str, total: int | None = None) -> Iterator[Meter]:
    """Show the progress of a task: a bar on a terminal, a line every `PLAIN_LINE_INTERVAL_S` elsewhere."""
    if not sys.stderr.isatty():
        yield Meter(label, total, None)
        return
    named = TextColumn("{task.description}", markup=False)
    columns = [named, BarColumn(), MofNCompleteColumn(), _Times()]
    with Progress(*columns, console=notes(), transient=True) as progress:
        yield Meter(label, total, progress)
