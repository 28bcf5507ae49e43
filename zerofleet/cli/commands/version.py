"""`zerofleet version`: installed versions, for a bug report or a script."""

from __future__ import annotations

import platform
from importlib import metadata

from zerofleet.cli import screen
from zerofleet.cli.options import Json

__all__ = ["version"]

COMPANIONS = ("torch", "numba", "numpy", "grpcio", "protobuf", "tritonclient", "redis", "pydantic-settings")


def version(json: Json = False) -> None:
    """Print the versions of Zerofleet, Python and the main dependencies."""
    versions = {"zerofleet": metadata.version("zerofleet"), "python": platform.python_version()}
    for name in COMPANIONS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    if json:
        screen.emit_json(versions)
        return
    rows = screen.table("package", "version")
    for name, found in versions.items():
        rows.add_row(name, found)
    screen.out().print(rows)
