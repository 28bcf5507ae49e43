"""Compilation in progress, for the pages that wait for it; the endpoint is about this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import BaseModel
from starlette.requests import Request

from ui.endpoints import Endpoint, StrictValue
from zerofleet.service.compilation import compilation_meter
from zerofleet.service.compilation_note import EXPECTED_S, PATIENCE_S, Compilation

__all__ = ["CompilingEndpoints", "CompilingNow", "compiling_now"]


class CompilingNow(StrictValue):
    """Compilation in progress; rules and search of a game compile once per machine and version."""

    is_compiling: bool
    """Whether one is in progress that a person notices."""
    functions: int
    """Number of compiled functions so far; 0 without a compilation."""
    seconds: float
    """Time since it began; 0 without a compilation."""
    expected_s: float
    """Usual duration on an idle machine."""


def compiling_now(found: Compilation | None) -> CompilingNow:
    """Return a compilation as pages show it: from its second second on."""
    if found is None or found.seconds < PATIENCE_S:
        return CompilingNow(is_compiling=False, functions=0, seconds=0.0, expected_s=EXPECTED_S)
    seconds = round(found.seconds, 1)
    return CompilingNow(is_compiling=True, functions=found.functions, seconds=seconds, expected_s=EXPECTED_S)


class CompilingEndpoints:
    """Handler over a meter of compilation."""

    def __init__(self, now: Callable[[], Compilation | None] | None = None) -> None:
        """Create it; by default this process is measured from here on."""
        self._now = now or compilation_meter().now

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoint."""
        return (Endpoint("/compilation", self.compilation, "Compilation in progress in these pages", CompilingNow),)

    async def compilation(self, request: Request) -> BaseModel:
        """Return the compilation in progress."""
        return compiling_now(self._now())
