"""Search budget per move and its notation: `5`, `200nodes`, `50ms`, `2s`, `50cpu_ms`.

Milliseconds of wall-clock time buy less search on a loaded machine; `cpu_ms` are processor time of the agent's thread, however
busy the machine is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from zerofleet.errors import InvalidRequest

__all__ = ["MOST_DIGITS", "Budget", "BudgetUnit"]

BudgetUnit: TypeAlias = Literal["plies", "simulations", "nodes", "ms", "cpu_ms"]

_WORDS: dict[str, BudgetUnit] = {"nodes": "nodes", "ms": "ms", "cpu_ms": "cpu_ms"}
_MOST: dict[BudgetUnit, int] = {
    "plies": 60,
    "simulations": 100_000_000,
    "nodes": 100_000_000_000,
    "ms": 3_600_000,
    "cpu_ms": 3_600_000,
}
MOST_DIGITS = 100  # of a number: Python converts no text of some thousands


@dataclass(frozen=True, slots=True)
class Budget:
    """Number of plies, simulations, nodes or milliseconds per move, of wall-clock (`ms`) or of the thread's processor time."""

    amount: int
    unit: BudgetUnit

    @property
    def is_time(self) -> bool:
        """Whether the budget counts milliseconds, of either clock."""
        return self.unit in {"ms", "cpu_ms"}

    @property
    def clock(self) -> Callable[[], float]:
        """Clock of the budget, in seconds; that of `cpu_ms` is of the calling thread."""
        return time.thread_time if self.unit == "cpu_ms" else time.perf_counter

    def require_own_thread(self, name: str) -> None:
        """Raise `InvalidRequest` for a budget of processor time: evaluations elsewhere would cost the thread nothing."""
        if self.unit == "cpu_ms":
            raise InvalidRequest(
                f"{name}: processor time needs a network evaluated by compiled code in the agent's thread; use {self.amount}ms"
            )

    @classmethod
    def parse(cls, text: str, *, bare: BudgetUnit, allowed: tuple[BudgetUnit, ...]) -> Budget:
        """Parse a budget.

        Args:
            text: `5`, `50ms`, `2s` (2,000 ms), `50cpu_ms` or `1000nodes`.
            bare: Unit of a number without a suffix.
            allowed: Units supported by the agent.

        Raises:
            InvalidRequest: Malformed or out of range; the message lists the accepted forms.
        """
        found = re.fullmatch(rf"([0-9]{{1,{MOST_DIGITS}}})(cpu_ms|ms|s|nodes)?", text.strip())
        if found is None:
            raise InvalidRequest(f"{text!r} is not a budget; write {_examples(bare, allowed)}")
        amount, word = int(found[1]), found[2]
        if word == "s":
            amount, word = amount * 1000, "ms"
        unit = bare if word is None else _WORDS[word]
        if unit not in allowed:
            raise InvalidRequest(f"{text!r} counts {unit}, which this agent does not support; write {_examples(bare, allowed)}")
        if not 1 <= amount <= _MOST[unit]:
            raise InvalidRequest(f"{text!r} is out of range; want 1 to {_MOST[unit]:,} {unit}")
        return cls(amount, unit)

    def __str__(self) -> str:
        return f"{self.amount}{self.unit if self.unit in _WORDS.values() else ''}"


def _examples(bare: BudgetUnit, allowed: tuple[BudgetUnit, ...]) -> str:
    forms = {
        "plies": "5 (plies)",
        "simulations": "1000 (simulations)",
        "nodes": "100000nodes",
        "ms": "50ms or 2s",
        "cpu_ms": "50cpu_ms",
    }
    return " or ".join(forms[unit] for unit in allowed if unit == bare or unit in _WORDS.values())
