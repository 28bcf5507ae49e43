"""`zerofleet report`: a run as one HTML file that opens without a network, or as one JSON object."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli import screen
from zerofleet.cli.compilation import announce_compilation
from zerofleet.cli.options import Json
from zerofleet.cli.report.page import html_page
from zerofleet.cli.report.strips import draw_strips
from zerofleet.library.run_files import OpenRun
from zerofleet.library.run_list import run_name
from zerofleet.library.run_report import read_report
from zerofleet.storage.files import atomic_publish, require_place
from zerofleet.storage.run_lookup import named_run
from zerofleet.storage.run_paths import RunPaths

__all__ = ["report"]

STRIPS = 4


def report(
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="Run directory, or its name below runs/.", show_default="the newest run"),
    ] = None,
    *,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="File to write.", show_default="RUN.html, here")
    ] = None,
    games: Annotated[int, typer.Option("--games", metavar="N", min=0, max=200, help="Newest stored games to list.")] = 12,
    json: Json = False,
) -> None:
    """Write a run as one HTML file: overview, curves, ladder, models, matches, games and settings.

    Everything is read from the run's files: it may be stopped or under way. The file has no scripts and needs no network.
    With --json the same values are printed instead, and no file is written.
    """
    root = named_run(run)
    path = out if out is not None else Path(f"{root.resolve().name}.html")
    if not json:
        require_place(path)
    opened = OpenRun(run_name(root), RunPaths(root))
    announce_compilation(opened.header.game)
    try:
        found = read_report(opened, games=games, made_at=datetime.now(UTC))
        if json:
            screen.emit_value(found)
            return
        strips = draw_strips(opened, found.games.games[:STRIPS] if found.games is not None else ())
    finally:
        opened.close()
    page = html_page(found, strips).encode("utf-8", "backslashreplace")
    atomic_publish(path, page)
    screen.note(f"wrote {path}: {len(page) / 1e6:.2f} MB")
