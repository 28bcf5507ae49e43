"""Record of a conformance check: positions seen, calls of each rule, progress, and the summary at the end."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

__all__ = ["Checked", "Progress", "Record"]

PROGRESS_INTERVAL_S = 1.0
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Progress:
    """State of a check while it runs; `str` is one line for a terminal."""

    rule: str
    """Rule that is called next: on its first call it is compiled, which takes seconds on an empty cache."""
    is_first_call: bool
    games: int
    """Games played to the end."""
    games_limit: int
    """Number of games after which the check ends in any case."""
    positions: int
    processor_s: float

    def __str__(self) -> str:
        doing = f"first call of {self.rule}" if self.is_first_call else self.rule
        done = f"{self.games} of at most {self.games_limit} games, {self.positions:,} positions"
        return f"{done}, {self.processor_s:.0f} s of processor time: {doing}"


@dataclass(frozen=True, slots=True)
class Checked:
    """Extent of a check that found no broken law; `str` is a summary for a terminal."""

    game: str
    """Game with its parameters."""
    seed: int
    games: int
    """Games played to the end."""
    positions: int
    """Positions of these games, starts and ends included; every law was checked in each."""
    rules: dict[str, int]
    """Number of calls by rule, repetitions left out, in the positions themselves, their images and their samples; `trials of
    may_end` are searches for the end of the game where `may_end` denies it."""
    symmetries_followed: int
    """Symmetries checked through whole games: those that preserve the starting position."""
    symmetries: int
    symmetries_unfollowed: tuple[str, ...]
    """Names of the other symmetries, which change the starting position: their form alone was checked."""
    secret_pairs: int
    """Pairs of secret moves compared in every view."""
    unchecked: tuple[str, ...]
    """Optional rules and checks that these games gave no occasion for."""
    processor_s: float
    first_calls_s: float
    """Processor time of the first call of each rule: compilation on an empty cache, loading otherwise."""

    def __str__(self) -> str:
        calls = ", ".join(f"{name} {count:,}" for name, count in self.rules.items())
        lines = [
            f"{self.game} keeps the laws of games.core in {self.games:,} complete games, {self.positions:,} positions, "
            f"seed {self.seed}",
            f"calls of rules: {calls}",
        ]
        if self.symmetries:
            lines.append(f"symmetries followed through whole games: {self.symmetries_followed} of {self.symmetries}")
        if self.symmetries_unfollowed:
            lines.append(
                f"symmetries that change the starting position, checked in form alone: {', '.join(self.symmetries_unfollowed)}"
            )
        if self.secret_pairs:
            lines.append(f"pairs of secret moves compared in every view: {self.secret_pairs:,}")
        if self.unchecked:
            lines.append(f"not checked for want of an occasion: {', '.join(self.unchecked)}")
        lines.append(
            f"processor time: {self.processor_s:.1f} s, of which {self.first_calls_s:.1f} s in first calls of rules "
            "(compilation, unless cached)"
        )
        return "\n".join(lines)


@dataclass
class Record:
    """State of a running check: positions seen, calls of rules, games played."""

    games_limit: int
    progress: Callable[[Progress], None] | None = None
    games: int = 0
    positions: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    """Number of calls by rule."""
    secret_pairs: int = 0
    symmetries_followed: set[str] = field(default_factory=set)
    deals_differ: bool = False
    """Whether `determinise` has returned different positions for different seeds."""
    first_calls_s: float = 0.0
    _key_of: dict[bytes, int] = field(default_factory=dict)
    """Key by state."""
    _look_of: dict[int, tuple[bytes, tuple[int, ...]]] = field(default_factory=dict)
    """Digest of the planes for the player to move, and legal actions, by key."""
    _began: float = field(default_factory=time.process_time)
    _told_at: float = field(default_factory=time.monotonic)

    @property
    def processor_s(self) -> float:
        """Processor time of this process since the check began, in seconds."""
        return time.process_time() - self._began

    @contextmanager
    def call(self, rule: str) -> Iterator[None]:
        """Count a call of `rule`, the body of the context, and report progress before it."""
        self.calls[rule] += 1
        is_first = self.calls[rule] == 1
        if self.progress is not None and (is_first or time.monotonic() - self._told_at >= PROGRESS_INTERVAL_S):
            self._told_at = time.monotonic()
            self.progress(Progress(rule, is_first, self.games, self.games_limit, self.positions, self.processor_s))
        if not is_first:
            yield
            return
        began = time.process_time()
        yield
        self.first_calls_s += time.process_time() - began

    def other_key(self, state: np.ndarray, key: int) -> int | None:
        """Return the earlier key of an equal state if it differs from `key`; remember `key` otherwise."""
        earlier = self._key_of.setdefault(state.tobytes(), key)
        return None if earlier == key else earlier

    def other_actions(self, key: int, planes: np.ndarray, actions: list[int]) -> tuple[int, ...] | None:
        """Return the legal actions of an earlier position with `key` but other planes or legal actions, else None."""
        look = (hashlib.blake2b(planes.tobytes(), digest_size=_DIGEST_BYTES).digest(), tuple(actions))
        earlier = self._look_of.setdefault(key, look)
        return None if earlier == look else earlier[1]
