"""The gatekeeper's view of models: champions, candidates, match reports and rungs, with their wire form.

The service and its clients share these values; only `to_wire` and `from_wire` depend on protobuf. `model` is the name under
which a model is served (`connect_four`); the messages call it `game`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from zerofleet.contracts.champions import Champion
from zerofleet.contracts.wire import gatekeeper_pb2 as wire
from zerofleet.errors import ConfigurationError

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
"""Champion and predecessor: games started with the predecessor are still in progress."""


class CandidateStatus(StrEnum):
    """Status of a submitted version."""

    QUEUED = "queued"
    PLAYING = "playing"
    PROMOTED = "promoted"
    REJECTED = "rejected"
    BROKEN = "broken"
    """Failed its checks, or could not be served."""
    SUPERSEDED = "superseded"
    """A newer candidate arrived before its match began."""
    TRIAL = "trial"
    """Promoted at once; its measurement has not ended."""
    UNPROVEN = "unproven"
    """Promoted at once; its measurement was undecided, or a newer version replaced it before the measurement began."""
    WEAKER = "weaker"
    """Promoted at once and found weaker: rolled back, and never promoted again by the gate."""

    @property
    def settled(self) -> bool:
        """Whether its promotion has been decided; a measurement may follow."""
        return self not in (CandidateStatus.QUEUED, CandidateStatus.PLAYING)


def recent_versions(history: Sequence[Champion]) -> list[int]:
    """Return the versions that are always served, champion first; `history` is oldest first."""
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
        exported_at_ms=champion.exported_at_ms,
    )


def champion_from_wire(message: wire.Champion) -> Champion:
    """Return the champion in a message."""
    return Champion(
        model=message.game,
        version=message.version,
        epoch=message.epoch,
        manifest_sha256=message.manifest_sha256,
        promoted_at_ms=message.promoted_at_ms,
        reason=message.reason,
        exported_at_ms=message.exported_at_ms,
    )


@dataclass(frozen=True, slots=True)
class MatchReport:
    """Result of a match of the gate from the candidate's point of view, as messages, journal, pages and commands have it."""

    champion_version: int
    wins: int
    draws: int
    losses: int
    pentanomial: tuple[int, int, int, int, int]
    """Number of game pairs by the candidate's score in half points: index 0 = no point, 4 = two wins."""
    share: float
    """Share of points in [0, 1]."""
    share_low: float
    """Lower end of its 95 % interval."""
    share_high: float
    """Upper end of its 95 % interval."""
    log_likelihood_ratio: float
    """Value of the sequential test; 0 when another rule decides."""

    def to_wire(self) -> wire.MatchResult:
        """Return the wire message."""
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
        """Return the report in a message."""
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
    """Submitted version with its status and match."""

    model: str
    version: int
    status: CandidateStatus
    match: MatchReport | None = None
    reason: str = ""
    """Reason for rejection, as text."""

    def to_wire(self) -> wire.Candidate:
        """Return the wire message."""
        return wire.Candidate(
            game=self.model,
            version=self.version,
            status=f"{_WIRE_PREFIX}{self.status.name}",
            match=self.match.to_wire() if self.match else None,
            reason=self.reason,
        )

    @classmethod
    def from_wire(cls, message: wire.Candidate) -> Candidate:
        """Return the candidate in a message; raises `ConfigurationError` for a status or match of a newer release."""
        try:
            match = MatchReport.from_wire(message.match) if message.HasField("match") else None
            status = CandidateStatus[wire.CandidateStatus.Name(message.status).removeprefix(_WIRE_PREFIX)]
        except (KeyError, ValueError) as error:
            raise ConfigurationError(
                f"version {message.version} has a status or match that this release lacks ({error});"
                " install that of the gatekeeper"
            ) from error
        return cls(message.game, message.version, status, match, message.reason)


@dataclass(frozen=True, slots=True)
class Rung:
    """Player on the rating ladder; `random` has 0 Elo."""

    name: str
    """`random`, `alpha_beta:3`, `model:12`."""
    elo: float
    elo_low: float
    elo_high: float
    games: int
    anchored: bool
    """Whether games link it to `random`, for a model its own against rungs; otherwise its numbers are not to be shown."""

    def to_wire(self) -> wire.Rung:
        """Return the wire message."""
        return wire.Rung(
            name=self.name,
            elo=self.elo,
            elo_low=self.elo_low,
            elo_high=self.elo_high,
            games=self.games,
            anchored=self.anchored,
        )

    @classmethod
    def from_wire(cls, message: wire.Rung) -> Rung:
        """Return the rung in a message."""
        return cls(message.name, message.elo, message.elo_low, message.elo_high, message.games, message.anchored)
