"""`zerofleet doctor`: checks of this machine against the requirements, with a remedy for each failure."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from zerofleet.cli import screen
from zerofleet.cli.commands import checkup
from zerofleet.cli.commands.checkup import Finding
from zerofleet.cli.options import Json

__all__ = ["doctor"]

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    run_dir: Annotated[Path, typer.Option("--run-dir", metavar="DIR", help="Directory for runs; its disk is checked.")] = Path(
        "runs"
    ),
    stream_url: Annotated[
        str | None,
        typer.Option(
            "--stream-url", metavar="URL", envvar="ZEROFLEET_STREAM_URL", help="Game stream to check, if not the built-in one."
        ),
    ] = None,
    stream_name: Annotated[
        str, typer.Option("--stream-name", metavar="NAME", envvar="ZEROFLEET_STREAM_NAME", help="Name of the stream to check.")
    ] = "games",
    json: Json = False,
) -> None:
    """Check Python, packages, compiler cache, torch, memory, disk and sockets of this machine.

    The exit code is 1 if a check failed, otherwise 0; warnings do not count.
    """
    findings = []
    for check in checkup.checks(run_dir=run_dir):
        findings.append(check())
        if not json:
            _show(findings[-1])
    if stream_url is not None:
        findings.append(asyncio.run(checkup.check_stream(stream_url, stream_name)))
        if not json:
            _show(findings[-1])
    failed = sum(finding.status == "fail" for finding in findings)
    if json:
        screen.emit_json({"ok": not failed, "checks": [asdict(finding) for finding in findings]})
    else:
        screen.out().print(
            f"\n{failed} failed" if failed else "\nall checks passed", style="bold red" if failed else "bold green"
        )
    if failed:
        raise typer.Exit(1)


def _show(finding: Finding) -> None:
    line = Text(f"{finding.status:<5}", style=STYLES[finding.status])
    line.append(f"{finding.name:<15}", style="bold")
    line.append(finding.detail, style="default")
    if finding.advice:
        line.append(f"\n{'':20}→ {finding.advice}", style="dim")
    screen.out().print(line, soft_wrap=True)
    sys.stdout.flush()
