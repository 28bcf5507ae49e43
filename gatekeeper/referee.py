"""Referee: plays the match of a candidate against the champion, or of a champion against its reference, until it is decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np
import structlog

from games.core import Game
from gatekeeper.ledger import Ledger
from gatekeeper.pacing import Budget, PacedEvaluator
from gatekeeper.pointer import ChampionPointer
from gatekeeper.settings import GatekeeperSettings
from zerofleet.contracts.gate_events import TRIAL_MATCH
from zerofleet.contracts.promotions import Champion, MatchReport
from zerofleet.errors import ConfigurationError, InvalidRequest
from zerofleet.evaluators.base import Evaluator
from zerofleet.presets.gate_rules import model_play, stopping_rule, trial_rule
from zerofleet.storage.crash_points import crash_point
from zerofleet.strength.gate_record import match_report
from zerofleet.strength.matches import (
    AgentMaker,
    Decision,
    GameResult,
    MatchOutcome,
    MatchSettings,
    MatchTerms,
    Player,
    Scoreboard,
    SequentialTest,
    Standing,
    StoppingRule,
    decide,
    play_match,
    points,
)
from zerofleet.telemetry import metrics

__all__ = ["ChampionChanged", "Referee"]

log = structlog.get_logger()

SLOTS_SHARE = 4  # games of a close match for each one of its start


class ChampionChanged(Exception):
    """The champion was replaced during a match whose result depends on it."""


class Referee:
    """Gate matches of one model; results are stored in the ledger, so a match survives a restart."""

    def __init__(
        self,
        game: Game,
        settings: GatekeeperSettings,
        *,
        ledger: Ledger,
        pointer: ChampionPointer,
        make_agent: AgentMaker,
        budget: Budget,
    ) -> None:
        self._game = game
        self._settings = settings
        self._ledger = ledger
        self._pointer = pointer
        self._make_agent = make_agent
        self._budget = budget
        self._rule = stopping_rule(settings.gate)
        self._trial_rule = trial_rule(settings.gate)
        self._examined: WeakKeyDictionary[Scoreboard, tuple[int, MatchOutcome | None]] = WeakKeyDictionary()
        """Groups of each open match that the rule has been applied to, and the outcome, if that is known."""

    async def play(
        self, version: int, champion: Champion, evaluator: Evaluator, *, opponent: Champion | None = None
    ) -> Decision:
        """Play the match of a candidate, or the rest of it, until it is decided; by default against the champion.

        Raises `ChampionChanged`; `BrokenVersion`; `ConfigurationError` when no opening can be drawn; errors of the evaluator,
        after which the next call resumes the match.
        Cancellation: likewise.
        """
        other = (opponent or champion).version
        board = await self._open(f"gate/{version}/{other}/{champion.epoch}", version, other)
        lead, slots = self._settings.match_slots, SLOTS_SHARE * self._settings.match_slots
        if self._settings.gate.mode == "watch":
            evaluator, lead = PacedEvaluator(evaluator, self._budget), self._settings.watch_slots
            slots = lead
        return await self._play(board, evaluator, lead=lead, slots=slots, valid=lambda: self._pointer.epoch == champion.epoch)

    async def measure(self, champion: Champion, reference: int, evaluator: Evaluator, *, valid: Callable[[], bool]) -> Decision:
        """Measure a version promoted at once against `reference`, within the budget; resumes as `play`.

        `champion` is the version as it was promoted. Raises `ChampionChanged` when a result arrives and `valid()` is false;
        otherwise as `play`. Cancellation: likewise.
        """
        match_id = f"{TRIAL_MATCH}{champion.version}/{reference}/{champion.epoch}"
        board = await self._open(match_id, champion.version, reference)
        paced = PacedEvaluator(evaluator, self._budget)
        slots = self._settings.watch_slots
        return await self._play(board, paced, lead=slots, slots=slots, valid=valid)

    def trial_of(self, version: int) -> tuple[int, Decision | None] | None:
        """Return the reference of a version's open measurement and its decision, if reached; None without a measurement."""
        for board in self._ledger.boards("gate"):
            measured, reference = board.terms.players
            if measured.version == version and board.terms.match_id.startswith(TRIAL_MATCH) and reference.version is not None:
                outcome = self._outcome(board)
                return reference.version, outcome.decision if outcome else None
        return None

    def report_of(self, version: int) -> MatchReport | None:
        """Return the report of a candidate's latest open match, None when it has none.

        A killed process may have left a match against an earlier champion open.
        """
        for board in reversed(self._ledger.boards("gate")):
            candidate, champion = board.terms.players
            if candidate.version == version and champion.version is not None:
                standing = self.standing(board)
                return match_report(champion.version, standing, self._rule_of(board).log_likelihood_ratio(standing))
        return None

    def standing(self, board: Scoreboard) -> Standing:
        """Return the standing of a match; results after its decision do not count."""
        outcome = self._outcome(board)
        return outcome.standing if outcome else board.standing()

    def groups_of_win(self, board: Scoreboard) -> int:
        """Return the groups with which a match was decided for its first player, 0 for any other match."""
        outcome = self._outcome(board)
        return outcome.standing.groups if outcome and outcome.decision.first_wins else 0

    def _outcome(self, board: Scoreboard) -> MatchOutcome | None:
        """Return the outcome of a match; no group is examined twice, since each takes a millisecond of the event loop."""
        examined, outcome = self._examined.get(board, (0, None))
        if outcome is None and board.groups > examined:
            outcome = decide(board, self._rule_of(board), after=examined)
            self._examined[board] = board.groups, outcome
        return outcome

    async def _open(self, match_id: str, version: int, other: int) -> Scoreboard:
        seed = np.random.SeedSequence([self._settings.seed, version, other]).generate_state(1, np.uint64)
        terms = MatchTerms(
            match_id=match_id,
            game=self._game,
            players=(Player.model(version), Player.model(other)),
            seed=int(seed[0]) >> 1,
            opening_plies=self._settings.gate.opening_plies,
            max_groups=self._settings.gate.max_pairs,
            play=model_play(self._settings.gate),
        )
        try:
            next(terms.openings(), None)
        except InvalidRequest as error:  # of the settings: the candidate has no part in it
            raise ConfigurationError(f"gate.opening_plies: {error}") from error
        return await self._ledger.open_match(terms, "gate")

    async def _play(
        self, board: Scoreboard, evaluator: Evaluator, *, lead: int, slots: int, valid: Callable[[], bool]
    ) -> Decision:
        """Play a match with `lead` games at its start and up to `slots` later."""
        version, match_id = board.terms.players[0].version or 0, board.terms.match_id
        ended = Counter(map(_outcome, board.results()))
        self._show(version, board, ended)
        settings = replace(
            MatchSettings.recorded(board.terms.play or model_play(self._settings.gate)),
            slots=min(slots, board.terms.max_groups * board.terms.games_per_group),
            lead_games=lead,
            cache_positions=self._settings.cache_positions,
        )
        play = settings.terms(self._game.spec())
        log.info("match.begun", version=version, match=match_id, known_results=len(board.results()), **play)
        record = partial(self._record, version, board, ended, valid)
        try:
            outcome = await play_match(
                board, self._rule_of(board), evaluator, settings=settings, make_agent=self._make_agent, record=record
            )
        finally:
            metrics.GATE_CANDIDATE.set(0)
        self._examined[board] = board.groups, outcome
        decision = outcome.decision
        log.info("match.decided", version=version, match=match_id, passes=decision.first_wins, reason=decision.reason)
        return decision

    def _rule_of(self, board: Scoreboard) -> StoppingRule:
        return self._trial_rule if board.terms.match_id.startswith(TRIAL_MATCH) else self._rule

    async def _record(
        self, version: int, board: Scoreboard, ended: Counter[str], valid: Callable[[], bool], result: GameResult
    ) -> None:
        if not valid():
            raise ChampionChanged
        await self._ledger.record(result)
        crash_point("gatekeeper_after_result")
        outcome = _outcome(result)
        metrics.GATE_GAMES.labels(result=outcome).inc()
        ended[outcome] += 1
        self._show(version, board, ended)

    def _show(self, version: int, board: Scoreboard, ended: Counter[str]) -> None:
        """Export the state of the match: all its games by outcome (`ended`), and the test over those that count already."""
        metrics.GATE_CANDIDATE.set(version)
        for outcome in ("win", "draw", "loss"):
            metrics.GATE_MATCH_GAMES.labels(result=outcome).set(ended[outcome])
        rule, standing = self._rule_of(board), board.standing()
        for quarters, groups in enumerate(standing.pentanomial):
            metrics.GATE_MATCH_GROUPS.labels(share=f"{quarters / 4:g}").set(groups)
        metrics.GATE_LLR.set(rule.log_likelihood_ratio(standing))
        if isinstance(rule, SequentialTest):
            metrics.GATE_LLR_BOUND.labels(side="lower").set(rule.sprt.lower)
            metrics.GATE_LLR_BOUND.labels(side="upper").set(rule.sprt.upper)


def _outcome(result: GameResult) -> str:
    """Return the outcome of a game for the candidate."""
    share = points(result.seating, result.scores)
    return "win" if share > 0.5 else "loss" if share < 0.5 else "draw"
