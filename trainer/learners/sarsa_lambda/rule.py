"""Update rules of `sarsa_lambda` on weights of five features by phase, compiled.

A player's moves a, a' follow each other; Q(s, a) is the value V(x) of the position after the move, with the features x:

    u = w[phase] . x        V = u, or tanh(u)        grad V = x, or (1 - V^2) x, in the row of the phase

    sarsa, q_learning       e <- gamma lambda e + grad V(x)        w <- w + alpha (r + gamma T - V(x)) e
    monte_carlo             w <- w + alpha (gamma^k R - V(x)) grad V(x)        k moves of the player before the last

T is V(x') of the move that was played (Rummery and Niranjan 1994), or the highest in its pool, where traces end at a move that
was not the best (Watkins 1989). Value and gradient belong to the weights before the update; traces begin at 0 in each game. At
the end there is no T and r is the reward R. Both sides share the weights and have traces of their own.

Axes: N moves of a game, M moves of a pool, F features, P players.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from games.compiled import compiled

__all__ = ["ENDED", "METHODS", "NONE", "Episode", "Rates", "Rule", "learn", "new_rule", "value"]

METHODS = ("sarsa", "q_learning", "monte_carlo")
_Q_LEARNING, _MONTE_CARLO = 1, 2
_PLAYERS = 2
ENDED = -1
"""Phase of a position where the game is over; its value is the reward."""
NONE = -2
"""Phase of an empty place of a pool."""


class Episode(NamedTuple):
    """Moves of one game from which its seats learn, in the order of play."""

    features: np.ndarray  # float64 [N, F], of the position after the move, for its mover
    phases: np.ndarray  # int64 [N]; `ENDED` after the last move of a game that was played out
    seats: np.ndarray  # int64 [N], the mover
    exploratory: np.ndarray  # bool [N]
    pool_features: np.ndarray  # float64 [N, M, F]; M is 0 where the method needs none
    pool_phases: np.ndarray  # int64 [N, M]
    pool_rewards: np.ndarray  # float64 [N, M], set where the phase is `ENDED`
    rewards: np.ndarray  # float64 [P], reward of each seat at the end


class Rates(NamedTuple):
    """Constants of the rule."""

    learning_rate: float
    discount: float
    trace_decay: float


class Rule(NamedTuple):
    """Weights with everything that their updates need."""

    weights: np.ndarray  # float64 [3, F]
    learned: np.ndarray  # float64 [3, F], 1 for a weight that is learned, 0 for one that stays
    traces: np.ndarray  # float64 [P, 3, F]
    last: np.ndarray  # int64 [P], scratch
    rates: Rates
    method: int  # index into METHODS
    squashes: bool  # V is tanh(u)


def new_rule(weights: np.ndarray, rates: Rates, *, method: str, squashes: bool, learned: np.ndarray | None = None) -> Rule:
    """Return a rule that changes these weights (float64 [3, F]) in place; `learned`: by default all."""
    traces = np.zeros((_PLAYERS, *weights.shape))
    learned = np.ones_like(weights) if learned is None else learned
    return Rule(weights, learned, traces, np.zeros(_PLAYERS, np.int64), rates, METHODS.index(method), squashes)


@compiled
def learn(rule: Rule, episode: Episode) -> tuple[int, float, float]:
    """Learn from one game: change the weights in place.

    Returns the number of updates, the sum of the squared errors and the largest of their absolute values.
    """
    if rule.method == _MONTE_CARLO:
        return _learn_results(rule, episode)
    last, discount = rule.last, rule.rates.discount
    rule.traces[:] = 0.0
    last[:] = -1
    updates, squares, largest = 0, 0.0, 0.0
    for row in range(episode.seats.shape[0]):
        seat = episode.seats[row]
        if last[seat] >= 0:
            if rule.method == _Q_LEARNING:
                target = _best(rule, episode, row)
            elif episode.phases[row] == ENDED:
                target = episode.rewards[seat]
            else:
                target = discount * value(rule, episode.features[row], episode.phases[row])
            error = _update(rule, episode, last[seat], target)
            updates, squares, largest = updates + 1, squares + error**2, max(largest, abs(error))
        if rule.method == _Q_LEARNING and episode.exploratory[row]:
            rule.traces[seat] = 0.0
        last[seat] = -1 if episode.phases[row] == ENDED else row
    for seat in range(last.shape[0]):
        if last[seat] >= 0:
            error = _update(rule, episode, last[seat], episode.rewards[seat])
            updates, squares, largest = updates + 1, squares + error**2, max(largest, abs(error))
    return updates, squares, largest


@compiled
def value(rule: Rule, features: np.ndarray, phase: int) -> float:
    """Return V of a position with these features (float64 [F])."""
    total = 0.0
    for i in range(features.shape[0]):
        total += rule.weights[phase, i] * features[i]
    return math.tanh(total) if rule.squashes else total


@compiled
def _best(rule: Rule, episode: Episode, row: int) -> float:
    """Return the largest target among the moves of a pool: the discounted value, or the reward where the move ends the game."""
    best = -np.inf
    for i in range(episode.pool_phases.shape[1]):
        phase = episode.pool_phases[row, i]
        if phase == ENDED:
            best = max(best, episode.pool_rewards[row, i])
        elif phase != NONE:
            best = max(best, rule.rates.discount * value(rule, episode.pool_features[row, i], phase))
    return best


@compiled
def _update(rule: Rule, episode: Episode, row: int, target: float) -> float:
    """Move the value of a move and of those before it towards a target; return the error before the update."""
    weights, rates = rule.weights, rule.rates
    traces, features, phase = rule.traces[episode.seats[row]], episode.features[row], episode.phases[row]
    found = value(rule, features, phase)
    error, slope = target - found, _slope(rule, found)
    for j in range(weights.shape[0]):
        for i in range(weights.shape[1]):
            traces[j, i] *= rates.discount * rates.trace_decay
            if j == phase:
                traces[j, i] += slope * features[i] * rule.learned[j, i]
            weights[j, i] += rates.learning_rate * error * traces[j, i]
    return error


@compiled
def _slope(rule: Rule, found: float) -> float:
    """Return dV/du where V is `found`."""
    return 1.0 - found**2 if rule.squashes else 1.0


@compiled
def _learn_results(rule: Rule, episode: Episode) -> tuple[int, float, float]:
    """Learn the discounted result, from the last position of each seat to its first."""
    weights, rates = rule.weights, rule.rates
    results = episode.rewards.copy()
    updates, squares, largest = 0, 0.0, 0.0
    for back in range(episode.seats.shape[0]):
        row = episode.seats.shape[0] - 1 - back
        seat, phase, features = episode.seats[row], episode.phases[row], episode.features[row]
        if phase == ENDED:
            continue
        found = value(rule, features, phase)
        error = results[seat] - found
        for i in range(weights.shape[1]):
            weights[phase, i] += rates.learning_rate * error * _slope(rule, found) * features[i] * rule.learned[phase, i]
        results[seat] *= rates.discount
        updates, squares, largest = updates + 1, squares + error**2, max(largest, abs(error))
    return updates, squares, largest
