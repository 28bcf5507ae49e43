"""Register of games: number, seed, id and outcome of every game of this process.

The seed of a game is a hash of (run seed, worker, incarnation, number) and part of its record: any game can be replayed.
Each process draws its own incarnation, so a restarted worker does not repeat its first games. With `selfplay.sync` the version
takes the place of the number, the incarnation is constant, and so is the worker without a `worker_id`: a restarted worker plays
the same game with the same version again, under the same uid, and so does the worker of another run with the same seed.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from prometheus_client import Counter

from selfplay_worker.diagnostics import ENDINGS, Diagnostics, Figures
from selfplay_worker.resignation import ResignationCalibration
from selfplay_worker.settings import WorkerSettings
from zerofleet.contracts.naming import MAX_RECORD_BYTES
from zerofleet.contracts.played import without_searches
from zerofleet.contracts.records import encode_record, new_uid
from zerofleet.search import PlayedGame
from zerofleet.telemetry import metrics, tracing

__all__ = ["FinishedGame", "GameRegister", "Ticket", "game_seed"]

_OUTCOMES = ("first_player", "second_player", "third_player", "fourth_player", "fifth_player", "sixth_player")

_ONE_WORKER = "worker"  # with `selfplay.sync`, in place of a name of host and process


@dataclass(frozen=True, slots=True)
class Ticket:
    """A game in progress."""

    number: int  # 1, 2, 3 ... within this process
    seed: int  # in [0, 2^63), which fits signed and unsigned words
    uid: str
    version: int  # model version it began with
    span: tracing.Span = tracing.NO_SPAN


@dataclass(frozen=True, slots=True)
class FinishedGame:
    """A game on its way to the stream."""

    uid: str
    payload: bytes
    when_settled: Callable[[], None] | None = None
    """Called once the stream has the game, or has refused it for good."""
    traceparent: str = ""
    """Trace context of the game's span, if it has one."""


class GameRegister:
    """Opens and closes games. Not thread-safe."""

    def __init__(self, settings: WorkerSettings, resignation: ResignationCalibration) -> None:
        self._worker = settings.name
        self._seeded_by = (settings.worker_id or _ONE_WORKER) if settings.selfplay.sync else settings.name
        self._run_seed = settings.run_seed
        self._sync = settings.selfplay.sync
        self._incarnation = settings.incarnation or (1 if self._sync else secrets.randbits(63))
        self._resignation = resignation
        self._diagnostics = Diagnostics()
        self._has_told_of_length = False
        self._log = structlog.get_logger().bind()  # for lines of every game: an unbound logger is made anew for each
        self._wins = {outcome: metrics.WINS_IN_ONE.labels(outcome=outcome) for outcome in ("taken", "overlooked")}
        self._samples = {weight: metrics.SELFPLAY_SAMPLES.labels(weight=weight) for weight in ("full", "reduced")}
        self._ended = {ending: metrics.GAMES_ENDED.labels(ending=ending) for ending in ENDINGS}
        self._finished: dict[tuple[str, str], Counter] = {}  # by game and outcome; `labels` costs as much as ten counts
        metrics.RESIGNED_GAMES.set_function(lambda: self.figures.resigned_ratio)
        metrics.TARGET_ENTROPY.set_function(lambda: self.figures.target_entropy)
        metrics.DISTINCT_OPENINGS.set_function(lambda: self.figures.distinct_openings_ratio)
        metrics.NEW_POSITIONS.set_function(lambda: self.figures.new_positions_ratio)

    def begin(self, version: int) -> Ticket:
        """Return the ticket of a new game."""
        number = self._resignation.started()
        metrics.GAMES_ACTIVE.inc()
        counted = version if self._sync else number
        uid = new_uid(self._run_seed, self._seeded_by, counted, self._incarnation)
        return Ticket(
            number=number,
            seed=game_seed(self._run_seed, self._seeded_by, self._incarnation, counted),
            uid=uid,
            version=version,
            span=self._span(uid, version) if tracing.chosen(uid) else tracing.NO_SPAN,
        )

    def _span(self, uid: str, version: int) -> tracing.Span:
        return tracing.begin("game", game_uid=uid, worker=self._worker, version=version)

    def finish(self, ticket: Ticket, played: PlayedGame) -> FinishedGame:
        """Close a game that was played to its end; return its record for the stream.

        A record that the stream would refuse for its length stores the moves in place of their searches; the first is logged.
        """
        self._resignation.finished(ticket.number, played)
        metrics.GAMES_ACTIVE.dec()
        outcome = outcome_of(played.scores)
        self._count(played, outcome)
        self._log.debug("game.finished", game_uid=ticket.uid, plies=len(played.moves), version=ticket.version)
        tracing.note(ticket.span, plies=len(played.moves), outcome=outcome)
        ticket.span.end()
        payload = encode_record(played, worker_id=self._worker, uid=ticket.uid)
        if len(payload) > MAX_RECORD_BYTES:
            self._tell_of_length(ticket, played, len(payload))
            payload = encode_record(without_searches(played), worker_id=self._worker, uid=ticket.uid)
        return FinishedGame(ticket.uid, payload, traceparent=tracing.traceparent(ticket.span))

    def _tell_of_length(self, ticket: Ticket, played: PlayedGame, size_bytes: int) -> None:
        """Log the first game that is too long for its searches."""
        if not self._has_told_of_length:
            self._has_told_of_length = True
            why = f"a record has at most {MAX_RECORD_BYTES} bytes; the policy targets of such games are the moves played"
            self._log.warning("game.too_long", game_uid=ticket.uid, plies=len(played.moves), size_bytes=size_bytes, why=why)

    def _count(self, played: PlayedGame, outcome: str) -> None:
        labels = played.game.spec().name, outcome
        if labels not in self._finished:
            self._finished[labels] = metrics.GAMES_FINISHED.labels(*labels)
        self._finished[labels].inc()
        facts = self._diagnostics.note(played)
        self._ended[facts.ending].inc()
        for counter, count in (
            (self._wins["taken"], facts.wins_taken),
            (self._wins["overlooked"], facts.wins_overlooked),
            (self._samples["full"], facts.samples),
            (self._samples["reduced"], facts.reduced_samples),
        ):
            if count:
                counter.inc(count)

    @property
    def figures(self) -> Figures:
        """Figures of the games finished so far."""
        return self._diagnostics.figures

    def abandon(self, ticket: Ticket, reason: str) -> None:
        """Close a game that will not be finished. `reason`: stale, version_gone or drain."""
        self._resignation.abandoned(ticket.number)
        metrics.GAMES_ACTIVE.dec()
        metrics.GAMES_ABANDONED.labels(reason=reason).inc()
        self._log.debug("game.abandoned", game_uid=ticket.uid, version=ticket.version, reason=reason)
        tracing.note(ticket.span, abandoned=reason)
        ticket.span.end()


def game_seed(run_seed: int, worker: str, incarnation: int, number: int) -> int:
    """Return the seed of a game, in [0, 2^63)."""
    text = f"{run_seed}/{worker}/{incarnation}/{number}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def outcome_of(scores: tuple[float, ...]) -> str:
    """Return the metric label of a result: the player with the highest score, or `draw`."""
    best = max(scores)
    winners = [seat for seat, score in enumerate(scores) if score == best]
    return _OUTCOMES[winners[0]] if len(winners) == 1 and winners[0] < len(_OUTCOMES) else "draw"
