"""`zerofleet ui`: the web application over run directories, as a process of its own."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from pydantic_core import from_json

from zerofleet.cli import screen
from zerofleet.errors import ConfigurationError
from zerofleet.service.ports import PAGE_PORT
from zerofleet.storage.run_lookup import require_folder
from zerofleet.storage.run_paths import RUNS
from zerofleet.storage.runs import read_header

__all__ = ["require_pages", "ui"]

LOOK_EVERY_S = 0.05
NEEDED = ("jinja2", "starlette", "uvicorn")


def ui(
    *,
    run_dir: Annotated[
        Path | None, typer.Option("--run-dir", metavar="DIR", help="Show this run alone.", show_default="every run of --runs")
    ] = None,
    runs: Annotated[
        Path | None, typer.Option("--runs", metavar="FOLDER", help="Folder of run directories.", show_default=f"{RUNS}")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Listening address; any but loopback needs ZEROFLEET_PAGE_TOKEN.",
            show_default="127.0.0.1",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="N",
            min=0,
            max=65535,
            help="Listening port; 0 selects a free one.",
            show_default=f"{PAGE_PORT}",
        ),
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option(
            "--costs", metavar="FILE", help="Cost file of bench --save, for the cluster page.", show_default="a shipped example"
        ),
    ] = None,
) -> None:
    """Serve runs, curves, models, games and play as web pages, for a browser on this machine, until Ctrl-C.

    The pages read the files of the runs: they work while a run is stopped, and show its services while it is alive. An option
    that is not given has the value of its setting in the environment, such as ZEROFLEET_PAGE_PORT, else its default.
    """
    require_pages("zerofleet ui")
    command = [sys.executable, "-m", "ui", *_checked(run_dir, runs)]
    for name, value in (("--page-host", host), ("--page-port", port), ("--costs", costs)):
        command += [] if value is None else [name, str(value)]
    if not os.environ.get("ZEROFLEET_LOG_LEVEL"):
        command += ["--log-level", "warning"]
    command += ["--parent-pid", str(os.getpid())]
    raise typer.Exit(_until_end(command))


def require_pages(command: str) -> None:
    """Raise `ConfigurationError` unless the packages of the web application are installed."""
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise ConfigurationError(f"{command} needs {', '.join(missing)}; install them with: pip install 'zerofleet[ui]'")


def _checked(run_dir: Path | None, runs: Path | None) -> list[str]:
    """Return the options of the service for the runs to show. Raises `RunDirectoryError`."""
    if run_dir is None and runs is None:
        run_dir, runs = _set("ZEROFLEET_RUN_DIR"), _set("ZEROFLEET_RUNS")
        if runs is not None:  # as in the service
            run_dir = None
    if run_dir is not None:
        read_header(run_dir)
        return ["--run-dir", str(run_dir), "--runs", ""]  # a folder in the environment would take its place
    runs = runs or RUNS
    require_folder(runs)
    return ["--runs", str(runs)]


def _set(name: str) -> Path | None:
    """Return the path of a setting in the environment; None without one."""
    return Path(value) if (value := os.environ.get(name)) else None


def _until_end(command: list[str]) -> int:
    """Run the service and print its address once it listens; return its exit code.

    Ctrl-C reaches this process alone, which sends SIGTERM: the service ends in order, or without a traceback while it starts.
    Raises `KeyboardInterrupt` in the latter case. A second Ctrl-C cuts the drains of the service short.
    """
    address, is_interrupted = "", False
    folder = tempfile.TemporaryDirectory(prefix="zerofleet-")
    announce = Path(folder.name) / "ui.json"
    with folder, subprocess.Popen([*command, "--announce", str(announce)], process_group=0) as process:
        while True:
            try:
                code = process.wait(timeout=None if address or is_interrupted else LOOK_EVERY_S)
            except subprocess.TimeoutExpired:
                if address := _announced(announce):
                    folder.cleanup()  # now, as a signal that ends this process would leave it
                    screen.note(f"serving {address} until Ctrl-C")
            except KeyboardInterrupt:
                # A supervised service ignores a second SIGTERM.
                process.send_signal(signal.SIGINT if is_interrupted else signal.SIGTERM)
                is_interrupted = True
            else:
                if is_interrupted and not address:
                    raise KeyboardInterrupt
                return code


def _announced(announce: Path) -> str:
    """Return the address in the announce file of the service; empty before it listens."""
    try:
        return str(from_json(announce.read_bytes())["address"])
    except FileNotFoundError:
        return ""
