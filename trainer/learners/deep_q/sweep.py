"""Expected results of the positions in memory: absorption probabilities of the Markov chain of its transitions, by sweeps.

    q_ij = transitions i -> j / visits of i
    p_ik = q_ik + sum over the non-terminal j of q_ij p_jk        for every terminal class k

repeated over all i until no p changes by more than `TOLERANCE`. This is what Li (Chinese University of Hong Kong) prints as
prioritised sweeping, repaired: Gauss-Seidel sweeps in place of the queue of Moore and Atkeson 1993, and p_jk where p_ik is
printed.

Axes: S non-terminal states, K terminal classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Chain", "by_sweeps"]

TOLERANCE = 1e-9
MOST_SWEEPS = 100_000


class Chain(NamedTuple):
    """Absorbing Markov chain."""

    between: np.ndarray  # float64 [S, S], probability of a step from i to j
    ending: np.ndarray  # float64 [S, K], probability of a step from i into class k; the rows of both together sum to 1


def by_sweeps(chain: Chain) -> np.ndarray:
    """Return the probability of ending in each class, float64 [S, K], by sweeps over all states, the last state first.

    States are numbered in order of their first visit, so that most lead to later ones. Stops after `MOST_SWEEPS` sweeps.
    """
    found = chain.ending.copy()
    for _ in range(MOST_SWEEPS):
        change = 0.0
        for i in range(len(found) - 1, -1, -1):
            fresh = chain.ending[i] + chain.between[i] @ found
            change = max(change, float(np.abs(fresh - found[i]).max(initial=0.0)))
            found[i] = fresh
        if change < TOLERANCE:
            break
    return found
