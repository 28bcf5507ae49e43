"""Matches of a gate for tests of readers: the events of a match with random games, as a gatekeeper writes them."""

from __future__ import annotations

import numpy as np

from games import core, positions
from games.core import Game
from zerofleet.contracts.gate_events import Event, MatchClosed, ModelPlay, StatusChanged, Submitted
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.strength.gate_record import ended, match_report, opened
from zerofleet.strength.matches import GameResult, MatchTerms, Pairing, Player, Scoreboard, StoppingRule

__all__ = ["sample_match"]


def sample_match(
    game: Game,
    rule: StoppingRule,
    *,
    match_id: str,
    version: int,
    opponent: int,
    groups: int,
    status: CandidateStatus | None = CandidateStatus.REJECTED,
    play: ModelPlay | None = None,
) -> list[Event]:
    """Return the events of a match of `groups` groups of random games; with `status` None it is still open.

    The report of its verdict is that of `rule` over all of its groups. `play` is what the journal states of the searches.
    """
    players = (Player.model(version), Player.model(opponent))
    terms = MatchTerms(match_id, game, players, seed=version, opening_plies=1, max_groups=groups, play=play)
    board, rng = Scoreboard(terms), np.random.default_rng(version)
    events: list[Event] = [Submitted(version=version, manifest_sha256="0" * 64), opened(terms, "gate")]
    for group in range(groups):
        if (opening := board.opening(group)) is None:
            break
        for pairing in terms.pairings(group, opening):
            result = _played(game, pairing, rng)
            board.record(result)
            events.append(ended(result))
    if status is None:
        return [*events, StatusChanged(version=version, status=CandidateStatus.PLAYING)]
    standing = board.standing()
    report = match_report(opponent, standing, rule.log_likelihood_ratio(standing))
    reason = f"{status.value} after {standing.groups} pairs"
    return [
        *events,
        StatusChanged(version=version, status=status, reason=reason, report=report),
        MatchClosed(match_id=match_id, rated_groups=0),
    ]


def _played(game: Game, pairing: Pairing, rng: np.random.Generator) -> GameResult:
    moves = list(pairing.opening.moves)
    state = positions.replay(game, moves, pairing.opening.seed)
    while legal := positions.legal(game, state):
        moves.append(int(rng.choice(legal)))
        core.play(game, state, moves[-1])
    return GameResult(
        match_id=pairing.match_id,
        group=pairing.group,
        seating=pairing.seating,
        players=tuple(player.name for player in pairing.players),
        moves=tuple(moves),
        scores=positions.final_scores(game, state),
    )
