"""Targets of the fuzzer: valid inputs, a mutation, and a call whose outcome is a label or a fault."""

from __future__ import annotations

import random
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fuzz_mutation import Mutation, mutate_bytes, spliced

from games.errors import GameError
from zerofleet.errors import ZerofleetError

__all__ = ["ACCEPTED", "Fault", "Outcome", "Target", "reader"]

ACCEPTED = "accepted"
_MOST_KEPT = 200
"""Inputs of a target that are kept for further mutation."""
_VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|b'[^']*'|[0-9a-f]{6,}|-?\d+|\S*/\S*|[^\x20-\x7e]+")


class Fault(Exception):
    """An outcome that no input may have."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one input."""

    label: str
    """`accepted`, or the class or status of a refusal."""
    kind: str = ""
    """Message of a refusal without its varying parts: a new one makes an input worth keeping."""

    @classmethod
    def refused(cls, label: str, text: str) -> Outcome:
        """Return a refusal."""
        return cls(label, _VARYING.sub("#", text[:300])[:100])


@dataclass
class Target:
    """One method or format."""

    name: str
    seeds: Sequence[bytes]
    """Valid inputs, the first of which is repeated to see whether it is still accepted."""
    run: Callable[[bytes], Awaitable[Outcome]]
    """Handle an input; raises for a fault."""
    mutate: Mutation = mutate_bytes
    in_flight: int = 1
    """Inputs at a time: more than one for targets behind a socket."""
    also: frozenset[str] = frozenset()
    """Labels of refusals that the first seed may have, besides `accepted`."""
    prepare: Callable[[], Awaitable[None]] | None = None
    """Restores what other inputs may have changed, before the first seed is tried."""
    kept: list[bytes] = field(default_factory=list)
    """Inputs with a new kind of outcome."""
    kinds: set[tuple[str, str]] = field(default_factory=set)

    @property
    def folder(self) -> str:
        """Name of its folder in a corpus."""
        return re.sub(r"[^A-Za-z0-9_.]+", "_", self.name)

    def draw(self, rng: random.Random) -> bytes:
        """Return the next input."""
        known = (*self.seeds, *self.kept)
        if rng.random() < 0.05 and len(known) > 1:
            return spliced(rng, known)
        if rng.random() < 0.02:
            return rng.randbytes(rng.choice((0, 1, 8, 100, 2_000)))
        start = rng.choice(self.kept if self.kept and rng.random() < 0.5 else self.seeds)
        return (mutate_bytes if rng.random() < 0.1 else self.mutate)(rng, start)

    def learn(self, data: bytes, outcome: Outcome) -> bool:
        """Keep an input whose kind of outcome is new; return whether it was."""
        kind = (outcome.label, outcome.kind)
        if kind in self.kinds or len(self.kept) >= _MOST_KEPT:
            return False
        self.kinds.add(kind)
        self.kept.append(data)
        return True


def reader(
    name: str, seeds: Sequence[bytes], read: Callable[[bytes], Any], *, mutate: Mutation, also: tuple[type[Exception], ...] = ()
) -> Target:
    """Return the target of a function that reads bytes; refusals are errors of the two trees and those in `also`."""

    async def run(data: bytes) -> Outcome:
        try:
            read(data)
        except (ZerofleetError, GameError, *also) as error:
            return Outcome.refused(type(error).__name__, str(error))
        return Outcome(ACCEPTED)

    return Target(name, seeds, run, mutate)
