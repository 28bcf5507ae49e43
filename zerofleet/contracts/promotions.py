"""What the gatekeeper says of models: champions, candidates, match reports and rungs, with their form on the wire.

The service and its clients share these values; only `to_wire` and `from_wire` know of protobuf. `model` is the name a
model is served under (`connect_four`), which the messages call `game`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from zerofleet.contracts.manifests import Champion
from zerofleet.contracts.wire import gatekeeper_pb2 as wire

__all__ = [
    "Candidate",
    "CandidateStatus",
    "Champion",
    "MatchReport",
    "Rung",
    "champion_from_wire",
    "champion_to_wire",
    "recent_versions",
]

CHAMPIONS_SERVED = 2
"""The champion and its predecessor: games that began with the one before are still being played."""


class CandidateStatus(StrEnum):
    """Where a submitted version stands."""

    QUEUED = "queued"
    PLAYING = "playing"
    PROMOTED = "promoted"
    REJECTED = "rejected"
    BROKEN = "broken"
    """Failed its checks, or could not be served."""
    SUPERSEDED = "superseded"
    """A newer candidate arrived before its match began."""

    @property
    def settled(self) -> bool:
        """Whether the gatekeeper has no more work with it."""
        return self not in (CandidateStatus.QUEUED, CandidateStatus.PLAYING)


def recent_versions(history: Sequence[Champion]) -> list[int]:
    """Return the versions that are always served by a history of champions, which is oldest first; the champion's first."""
    found: list[int] = []
    for champion in reversed(history):
        if champion.version not in found:
            found.append(champion.version)
        if len(found) == CHAMPIONS_SERVED:
            break
    return found


_WIRE_PREFIX = "CANDIDATE_STATUS_"


def champion_to_wire(champion: Champion) -> wire.Champion:
    """Return the message for a champion."""
    return wire.Champion(
        game=champion.model,
        version=champion.version,
        epoch=champion.epoch,
        manifest_sha256=champion.manifest_sha256,
        promoted_at_ms=champion.promoted_at_ms,
        reason=champion.reason,
    )


def champion_from_wire(message: wire.Champion) -> Champion:
    """Return the champion a message names."""
    return Champion(
        model=message.game,
        version=message.version,
        epoch=message.epoch,
        manifest_sha256=message.manifest_sha256,
        promoted_at_ms=message.promoted_at_ms,
        reason=message.reason,
    )


@dataclass(frozen=True, slots=True)
class MatchReport:
    """A gate match from the candidate's point of view."""

    champion_version: int
    wins: int
    draws: int
    losses: int
    pentanomial: tuple[int, int, int, int, int]
    """Pairs of games by the candidate's points in half points: index 0 = no point, 4 = two wins."""
    share: float
    """Share of points in [0, 1], with its 95 % interval beside it."""
    share_low: float
    share_high: float
    log_likelihood_ratio: float
    """Of the sequential test; 0 when another rule decides."""

    def to_wire(self) -> wire.MatchResult:
        """Return the message for it."""
        return wire.MatchResult(
            champion_version=self.champion_version,
            wins=self.wins,
            draws=self.draws,
            losses=self.losses,
            pentanomial=self.pentanomial,
            share=self.share,
            share_low=self.share_low,
            share_high=self.share_high,
            log_likelihood_ratio=self.log_likelihood_ratio,
        )

    @classmethod
    def from_wire(cls, message: wire.MatchResult) -> MatchReport:
        """Return what a message says."""
        none, quarter, half, three_quarters, all_points = message.pentanomial
        return cls(
            champion_version=message.champion_version,
            wins=message.wins,
            draws=message.draws,
            losses=message.losses,
            pentanomial=(none, quarter, half, three_quarters, all_points),
            share=message.share,
            share_low=message.share_low,
            share_high=message.share_high,
            log_likelihood_ratio=message.log_likelihood_ratio,
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A submitted version and what became of it."""

    model: str
    version: int
    status: CandidateStatus
    match: MatchReport | None = None
    reason: str = ""
    """Why it was rejected or found broken, in words."""

    def to_wire(self) -> wire.Candidate:
        """Return the message for it."""
        return wire.Candidate(
            game=self.model,
            version=self.version,
            status=f"{_WIRE_PREFIX}{self.status.name}",
            match=self.match.to_wire() if self.match else None,
            reason=self.reason,
        )

    @classmethod
    def from_wire(cls, message: wire.Candidate) -> Candidate:
        """Return what a message says."""
        match = MatchReport.from_wire(message.match) if message.HasField("match") else None
        status = CandidateStatus[wire.CandidateStatus.Name(message.status).removeprefix(_WIRE_PREFIX)]
        return cls(message.game, message.version, status, match, message.reason)


@dataclass(frozen=True, slots=True)
class Rung:
    """One player of the rating ladder; `random` stands at 0."""

    name: str
    """`random`, `alpha_beta:3`, `model:12`."""
    elo: float
    elo_low: float
    elo_high: float
    games: int

    def to_wire(self) -> wire.Rung:
        """Return the message for it."""
        return wire.Rung(name=self.name, elo=self.elo, elo_low=self.elo_low, elo_high=self.elo_high, games=self.games)

    @classmethod
    def from_wire(cls, message: wire.Rung) -> Rung:
        """Return what a message says."""
        return cls(message.name, message.elo, message.elo_low, message.elo_high, message.games)
