"""Line of champions: conclusions from the history of the pointer and the statuses of the ledger, without state of its own.

    history   1   2   3   4   rollback to 2   5
    line      1   2                           5      as if 3 and 4 had never been promoted

A champion that is promoted again takes its own place in the line, so that a rollback goes to the one before it.

A champion is *confirmed* unless it was promoted at once and not (yet) found as strong as its reference: the first champion,
winners of a gate match, versions that passed their measurement, and those promoted by hand. A measurement compares with the
last confirmed champion, and a rollback returns to it, so that several small losses cannot add up unnoticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from zerofleet.contracts.promotions import Candidate, CandidateStatus, Champion
from zerofleet.errors import ModelNotFound

__all__ = [
    "NOT_SELF_TESTED",
    "ROLLBACK",
    "confirmed_champion",
    "confirmed_versions",
    "holds_candidates",
    "line_of",
    "previous_version",
    "was_self_tested",
]

ROLLBACK = "rollback"
"""Prefix of a rollback's reason, in the pointer and its history."""

NOT_SELF_TESTED = "(without self-test)"
"""Suffix of the reason of a champion that no inference server had loaded when it was promoted."""

UNCONFIRMED = tuple(
    status
    for status in CandidateStatus
    if not status.settled or status in (CandidateStatus.TRIAL, CandidateStatus.UNPROVEN, CandidateStatus.WEAKER)
)
"""Also of a version that is not settled: the pointer is written first, and the verdict a moment later."""


def line_of(history: Sequence[Champion]) -> list[Champion]:
    """Return the champions that were not rolled back, oldest first, each as last promoted; the last one's version plays."""
    line: list[Champion] = []
    held: Counter[int] = Counter()  # places of each version in the line
    for champion in history:
        is_last = bool(line) and line[-1].version == champion.version
        if held[champion.version] > is_last and champion.reason.startswith(ROLLBACK):
            held[line.pop().version] -= 1
            while line[-1].version != champion.version:
                held[line.pop().version] -= 1
        elif is_last:
            line[-1] = champion
        else:
            line.append(champion)
            held[champion.version] += 1
    return line


def previous_version(history: Sequence[Champion]) -> int:
    """Return the target of a rollback: the predecessor of the champion, as if the champion had never been promoted.

    Consecutive rollbacks go further back each time. Raises `ModelNotFound` when there is no predecessor.
    """
    line = line_of(history)
    if len(line) < 2:
        raise ModelNotFound("there is no earlier champion to go back to; promote a version by its number instead")
    return line[-2].version


def confirmed_champion(history: Sequence[Champion], candidates: Iterable[Candidate]) -> Champion | None:
    """Return the last confirmed champion of the line, None when there is none."""
    unconfirmed = {candidate.version for candidate in candidates if candidate.status in UNCONFIRMED}
    return next((champion for champion in reversed(line_of(history)) if champion.version not in unconfirmed), None)


def confirmed_versions(history: Sequence[Champion], candidates: Iterable[Candidate]) -> list[int]:
    """Return the versions that were champion and are confirmed, in the order of their first promotion, rolled back or not."""
    unconfirmed = {candidate.version for candidate in candidates if candidate.status in UNCONFIRMED}
    return [version for version in dict.fromkeys(champion.version for champion in history) if version not in unconfirmed]


def holds_candidates(history: Sequence[Champion], candidates: Sequence[Candidate]) -> bool:
    """Return whether candidates must pass a match first: a version was found weaker, and none was confirmed since."""
    confirmed = confirmed_champion(history, candidates)
    line = {champion.version for champion in line_of(history)}
    return any(
        candidate.status is CandidateStatus.WEAKER
        or (candidate.status is CandidateStatus.TRIAL and candidate.version not in line)  # its verdict is not noted yet
        for candidate in candidates
        if confirmed is None or candidate.version > confirmed.version
    )


def was_self_tested(history: Sequence[Champion], version: int, manifest_sha256: str) -> bool:
    """Return whether a version with this manifest has been champion after an inference server had loaded it."""
    return any(
        (champion.version, champion.manifest_sha256) == (version, manifest_sha256)
        and not champion.reason.endswith(NOT_SELF_TESTED)
        for champion in history
    )
