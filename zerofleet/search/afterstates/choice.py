"""Choice of a move by the values of its alternatives: greedy, epsilon-greedy or softmax; compiled."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from games.compiled import compiled
from games.kit.randomness import uniform, uniform_int
from zerofleet.search.afterstates.settings import AfterstateSettings

__all__ = ["Policy", "choose", "policy_of"]


class Policy(NamedTuple):
    """Policy as numbers: epsilon-greedy if the temperature is 0, else softmax."""

    epsilon: float
    temperature: float
    draw_value: float


def policy_of(settings: AfterstateSettings, share: float = 1.0) -> Policy:
    """Return the compiled form of the settings; epsilon and temperature are multiplied by `share`."""
    return Policy(
        epsilon=settings.epsilon * share if settings.policy == "epsilon_greedy" else 0.0,
        temperature=settings.temperature * share if settings.policy == "softmax" else 0.0,
        draw_value=settings.draw_value,
    )


@compiled
def choose(values: np.ndarray, count: int, policy: Policy, word: np.ndarray) -> tuple[int, float, bool]:
    """Draw one of the first `count` entries of `values` (float64 [L], in [0, 1]).

    `word` (uint64 [1]) is the generator. Returns the index, the probability with which it was drawn, and whether another has a
    higher value.
    """
    best, ties = _best(values, count)
    if policy.temperature > 0.0:
        chosen, probability = _by_softmax(values, count, best, policy.temperature, word)
        return chosen, probability, values[chosen] < best
    if policy.epsilon > 0.0 and uniform(word) < policy.epsilon:
        chosen = uniform_int(word, count)
    else:
        chosen = _place_of(values, best, uniform_int(word, ties))
    probability = policy.epsilon / count
    if values[chosen] == best:
        probability += (1.0 - policy.epsilon) / ties
    return chosen, probability, values[chosen] < best


@compiled
def _best(values: np.ndarray, count: int) -> tuple[float, int]:
    """Return the highest value, and how many entries have it."""
    best, ties = values[0], 1
    for i in range(1, count):
        if values[i] > best:
            best, ties = values[i], 1
        elif values[i] == best:
            ties += 1
    return best, ties


@compiled
def _place_of(values: np.ndarray, best: float, number: int) -> int:
    """Return the index of the entry with value `best` that has `number` of them before it."""
    index = 0
    while values[index] != best or number > 0:
        number -= values[index] == best
        index += 1
    return index


@compiled
def _by_softmax(values: np.ndarray, count: int, best: float, temperature: float, word: np.ndarray) -> tuple[int, float]:
    """Draw with probability proportional to exp(value / temperature); return index and probability.

    The highest value is subtracted first, so that no temperature overflows.
    """
    total = 0.0
    for i in range(count):
        total += math.exp((values[i] - best) / temperature)
    left = uniform(word) * total
    chosen, weight = 0, 0.0
    for i in range(count):
        share = math.exp((values[i] - best) / temperature)
        if share > 0.0:  # the last such entry is drawn if rounding leaves a rest
            chosen, weight = i, share
            left -= share
            if left < 0.0:
                break
    return chosen, weight / total
