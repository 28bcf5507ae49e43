"""Referee: plays the match of a candidate against the champion until it is decided."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np
import structlog

from games.core import Game
from gatekeeper.ledger import Ledger
from gatekeeper.pointer import ChampionPointer
from gatekeeper.settings import GatekeeperSettings
from zerofleet.contracts.promotions import Champion, MatchReport
from zerofleet.evaluators.base import Evaluator
from zerofleet.storage.crash_points import crash_point
from zerofleet.strength.matches import (
    AgentMaker,
    Decision,
    FixedGames,
    GameResult,
    MatchSettings,
    MatchTerms,
    Player,
    Scoreboard,
    SequentialTest,
    ShareOfPoints,
    Standing,
    StoppingRule,
    decide,
    play_match,
    points,
)
from zerofleet.strength.ratings import Sprt
from zerofleet.telemetry import metrics

__all__ = ["ChampionChanged", "Referee", "match_report", "stopping_rule"]

log = structlog.get_logger()


class ChampionChanged(Exception):
    """The champion was replaced during a candidate's match against it."""


class Referee:
    """Gate matches of one model; results are stored in the ledger, so a match survives a restart."""

    def __init__(
        self, game: Game, settings: GatekeeperSettings, *, ledger: Ledger, pointer: ChampionPointer, make_agent: AgentMaker
    ) -> None:
        self._game = game
        self._settings = settings
        self._ledger = ledger
        self._pointer = pointer
        self._make_agent = make_agent
        self._rule = stopping_rule(settings)

    async def play(self, version: int, champion: Champion, evaluator: Evaluator) -> Decision:
        """Play the match of a candidate, or the rest of it, until it is decided.

        Raises `ChampionChanged`; `BrokenVersion`; errors of the evaluator, after which the next call resumes the match.
        Cancellation: likewise.
        """
        terms, gate = self._terms(version, champion), self._settings.gate
        board = await self._ledger.open_match(terms, "gate")
        self._show(version, board)
        log.info("match.begun", version=version, match=terms.match_id, known_results=len(board.results()))
        settings = MatchSettings(
            simulations=gate.simulations,
            slots=min(self._settings.match_slots, gate.max_pairs * terms.games_per_group),
            cache_positions=self._settings.cache_positions,
        )
        record = partial(self._record, version, champion, board)
        outcome = await play_match(board, self._rule, evaluator, settings=settings, make_agent=self._make_agent, record=record)
        decision = outcome.decision
        log.info("match.decided", version=version, match=terms.match_id, passes=decision.first_wins, reason=decision.reason)
        return decision

    def report_of(self, version: int) -> MatchReport | None:
        """Return the report of a candidate's open match, None when it has none."""
        for board in self._ledger.boards("gate"):
            candidate, champion = board.terms.players
            if candidate.version == version and champion.version is not None:
                standing = self.standing(board)
                return match_report(champion.version, standing, self._rule.log_likelihood_ratio(standing))
        return None

    def standing(self, board: Scoreboard) -> Standing:
        """Return the standing of a match; results after its decision do not count."""
        outcome = decide(board, self._rule)
        return outcome.standing if outcome else board.standing()

    def _terms(self, version: int, champion: Champion) -> MatchTerms:
        seed = np.random.SeedSequence([self._settings.seed, version, champion.version]).generate_state(1, np.uint64)
        return MatchTerms(
            match_id=f"gate/{version}/{champion.version}/{champion.epoch}",
            game=self._game,
            players=(Player.model(version), Player.model(champion.version)),
            seed=int(seed[0]) >> 1,
            opening_plies=self._settings.gate.opening_plies,
            max_groups=self._settings.gate.max_pairs,
        )

    async def _record(self, version: int, champion: Champion, board: Scoreboard, result: GameResult) -> None:
        if self._pointer.epoch != champion.epoch:
            raise ChampionChanged
        await self._ledger.record(result)
        crash_point("gatekeeper_after_result")
        metrics.GATE_GAMES.labels(result=_outcome(result)).inc()
        self._show(version, board)

    def _show(self, version: int, board: Scoreboard) -> None:
        """Export the state of the match: all its games, and the test over those that count already."""
        metrics.GATE_CANDIDATE.set(version)
        ended = Counter(_outcome(result) for result in board.results())
        for outcome in ("win", "draw", "loss"):
            metrics.GATE_MATCH_GAMES.labels(result=outcome).set(ended[outcome])
        metrics.GATE_LLR.set(self._rule.log_likelihood_ratio(board.standing()))
        if isinstance(self._rule, SequentialTest):
            metrics.GATE_LLR_BOUND.labels(side="lower").set(self._rule.sprt.lower)
            metrics.GATE_LLR_BOUND.labels(side="upper").set(self._rule.sprt.upper)


def stopping_rule(settings: GatekeeperSettings) -> StoppingRule:
    """Return the stopping rule of the settings. Raises `ConfigurationError` for an impossible test."""
    gate = settings.gate
    if gate.mode == "share":
        return ShareOfPoints(gate.share, gate.max_pairs)
    if gate.mode == "sprt":
        return SequentialTest(Sprt(gate.elo0, gate.elo1, gate.alpha, gate.beta))
    return FixedGames()


def _outcome(result: GameResult) -> str:
    """Return the outcome of a game for the candidate."""
    share = points(result.seating, result.scores)
    return "win" if share > 0.5 else "loss" if share < 0.5 else "draw"


def match_report(champion_version: int, standing: Standing, log_likelihood_ratio: float) -> MatchReport:
    """Return the report of a match."""
    total, (low, high) = standing.total, standing.interval
    return MatchReport(
        champion_version=champion_version,
        wins=total.wins,
        draws=total.draws,
        losses=total.losses,
        pentanomial=standing.pentanomial,
        share=standing.share,
        share_low=low,
        share_high=high,
        log_likelihood_ratio=log_likelihood_ratio,
    )
