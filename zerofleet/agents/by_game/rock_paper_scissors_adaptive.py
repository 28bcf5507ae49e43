"""The agent `rock_paper_scissors_adaptive`: learns the other player's habits during a game and plays the best response.

Predictors, each a distribution over the other player's next choice, counted in this game alone:

    habits of order k     choices after the other player's last k choices            k = 0 .. order
    reactions of order k  choices after the last k turns, with both choices          k = 1 .. order
    imitations of order n `rock_paper_scissors_order:n` in the other seat            n = 1 .. order

Counts are smoothed by 1/2 (Krichevsky and Trofimov 1981) and, like the weights, fade at the rate `memory`, so that a player who
changes is followed. The predictors are mixed by their likelihood of the choices so far: exponential weights with logarithmic
loss (Cesa-Bianchi and Lugosi 2006, chapter 9). The agent plays the choice of highest expected gain. Where such play would have
lost turns lately, the other player foresees it, and the agent plays uniformly, which cannot be exploited.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from pydantic import Field

from games.core import Game, State, to_move
from games.rock_paper_scissors import NAMES, RockPaperScissors
from zerofleet.agents.base import Choice, Evaluate
from zerofleet.agents.by_game.rock_paper_scissors import MAX_ORDER, required
from zerofleet.agents.spelling import AgentOptions, Spelling, canonical_name

__all__ = ["RockPaperScissorsAdaptiveAgent", "RockPaperScissorsAdaptiveOptions", "from_spelling"]

_CHOICES = len(NAMES)
_SMOOTHING = 0.5
"""Count of every choice before the first (Krichevsky and Trofimov 1981)."""
_SLIP = 0.1
"""Probability that an imitated player chooses uniformly, so that no choice is impossible."""
_PATIENCE = 3.0
"""Turns lost net, recent ones counting most, after which best responses are no longer trusted."""
_STUDENTS = 256
"""Games in progress whose learning is kept."""
_TIE = 1e-12
"""Difference of expected gains that counts as none: sums in another order differ by rounding."""

Distribution = list[float]  # [3], by choice


class RockPaperScissorsAdaptiveOptions(AgentOptions):
    """Options of `rock_paper_scissors_adaptive`."""

    order: int = Field(default=3, ge=1, le=MAX_ORDER)
    """Longest pattern."""
    memory: float = Field(default=0.95, gt=0.0, le=1.0)
    """Factor by which evidence fades from one turn to the next; 1: all turns of the game count alike."""


class RockPaperScissorsAdaptiveAgent:
    """Plays the best response to a mixture of predictors, uniformly where best responses lose.

    What it learned of a game is a function of the choices so far; it is kept for the next turn only to save time.
    """

    def __init__(self, game: Game, options: RockPaperScissorsAdaptiveOptions) -> None:
        """Create the agent; raises `InvalidRequest` for another game."""
        self.name = canonical_name("rock_paper_scissors_adaptive", "", options)
        required(self.name, game)
        self._options = options
        self._students: OrderedDict[bytes, _Student] = OrderedDict()  # by the choices so far
        self._lock = threading.Lock()

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`."""
        return Choice(int(rng.choice(_CHOICES, p=self.policy(game, state))))

    def policy(self, game: Game, state: State) -> np.ndarray:
        """See `zerofleet.agents.PolicyAgent`: the choices of highest expected gain, equally likely."""
        played: RockPaperScissors = required(self.name, game)
        mover = to_move(game, state)
        own, other = played.history(state, mover), played.history(state, 1 - mover)
        student = self._student_of(own, other)
        for turn in range(len(student.other), len(other)):
            student.learn(own[turn], other[turn])
        answer = student.respond()
        with self._lock:
            self._students[_key(own, other)] = student
            while len(self._students) > _STUDENTS:
                self._students.popitem(last=False)
        return answer

    def _student_of(self, own: Sequence[int], other: Sequence[int]) -> _Student:
        """Return the student of a game in progress, which no other thread holds, or a new one; both give the same answer."""
        with self._lock:
            for turns in range(len(other), max(-1, len(other) - 2), -1):
                student = self._students.pop(_key(own[:turns], other[:turns]), None)
                if student is not None:
                    return student
        return _Student(self._options)


class _Student:
    """Everything learned in one game."""

    def __init__(self, options: RockPaperScissorsAdaptiveOptions) -> None:
        self.own: list[int] = []
        self.other: list[int] = []
        self._memory = options.memory
        self._predictors: list[_Predictor] = [_Habit(0, joint=False, memory=options.memory)]
        for order in range(1, options.order + 1):
            self._predictors += [_Habit(order, joint=joint, memory=options.memory) for joint in (False, True)]
            self._predictors.append(_Imitation(order))
        self._weights = [0.0] * len(self._predictors)  # logarithms
        self._trust = 0.0
        self._look_ahead()

    def learn(self, own: int, other: int) -> None:
        """Take in the choices of one turn."""
        memory = self._memory
        self._trust = memory * self._trust + sum(_gain(action, other) for action in self._best) / len(self._best)
        self._weights = [memory * w + math.log(view[other]) for w, view in zip(self._weights, self._views, strict=True)]
        for predictor in self._predictors:
            predictor.observe(self.own, self.other, other)
        self.own.append(own)
        self.other.append(other)
        self._look_ahead()

    def respond(self) -> np.ndarray:
        """Return the probability of each choice in the next turn, float64 [3]."""
        if self._trust < -_PATIENCE:
            return np.full(_CHOICES, 1.0 / _CHOICES)
        return np.array([1.0 / len(self._best) if action in self._best else 0.0 for action in range(_CHOICES)])

    def _look_ahead(self) -> None:
        self._views = [predictor.predict(self.own, self.other) for predictor in self._predictors]
        self._best = _best(_mixed(self._views, self._weights))


class _Predictor(Protocol):
    def predict(self, own: Sequence[int], other: Sequence[int]) -> Distribution:
        """Return the distribution of the other player's next choice after these turns."""
        ...

    def observe(self, own: Sequence[int], other: Sequence[int], choice: int) -> None:
        """Count the choice that followed these turns."""
        ...


class _Habit:
    """Frequencies of the other player's choices after their last `order` choices, or with `joint` those of both players."""

    def __init__(self, order: int, *, joint: bool, memory: float) -> None:
        self._order = order
        self._joint = joint
        self._memory = memory
        self._counts: dict[tuple[int, ...], Distribution] = {}

    def predict(self, own: Sequence[int], other: Sequence[int]) -> Distribution:
        counts = self._counts.get(self._context(own, other), [0.0] * _CHOICES)
        total = sum(counts) + _CHOICES * _SMOOTHING
        return [(count + _SMOOTHING) / total for count in counts]

    def observe(self, own: Sequence[int], other: Sequence[int], choice: int) -> None:
        if len(other) >= self._order:
            counts = self._counts.setdefault(self._context(own, other), [0.0] * _CHOICES)
            counts[:] = [self._memory * count + (action == choice) for action, count in enumerate(counts)]

    def _context(self, own: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
        seen = tuple(other[len(other) - self._order :])
        return seen + tuple(own[len(own) - self._order :]) if self._joint else seen


class _Imitation:
    """The agent `rock_paper_scissors_order:ORDER` in the other seat, which slips now and then."""

    def __init__(self, order: int) -> None:
        self._order = order
        self._counts: dict[tuple[int, ...], list[int]] = {}
        self._counted = order

    def predict(self, own: Sequence[int], other: Sequence[int]) -> Distribution:
        for turn in range(self._counted, len(own)):  # the choices of this agent, as the other player counts them
            counts = self._counts.setdefault(tuple(own[turn - self._order : turn]), [0] * _CHOICES)
            counts[own[turn]] += 1
        self._counted = max(self._counted, len(own))
        counts = self._counts.get(tuple(own[max(0, len(own) - self._order) :]), [0] * _CHOICES)
        foreseen = [action for action in range(_CHOICES) if counts[action] == max(counts)]
        answers = {(action + 1) % _CHOICES for action in foreseen}
        return [_SLIP / _CHOICES + (1.0 - _SLIP) * (action in answers) / len(answers) for action in range(_CHOICES)]

    def observe(self, own: Sequence[int], other: Sequence[int], choice: int) -> None:
        """Ignore the choice: the predictions follow from this agent's own choices."""


def _key(own: Sequence[int], other: Sequence[int]) -> bytes:
    return bytes(own) + bytes(other)  # of equal length


def _mixed(views: Sequence[Distribution], weights: Sequence[float]) -> Distribution:
    """Return the mean of distributions under the exponentials of `weights`."""
    peak = max(weights)
    shares = [math.exp(weight - peak) for weight in weights]
    return [
        sum(share * view[action] for share, view in zip(shares, views, strict=True)) / sum(shares) for action in range(_CHOICES)
    ]


def _best(likelihood: Distribution) -> list[int]:
    """Return the choices with the highest expected gain against a choice of this distribution."""
    gains = [sum(chance * _gain(action, choice) for choice, chance in enumerate(likelihood)) for action in range(_CHOICES)]
    return [action for action, gain in enumerate(gains) if gain > max(gains) - _TIE]


def _gain(action: int, choice: int) -> int:
    """Return 1 if `action` beats `choice`, -1 if it is beaten, 0 for equal ones."""
    return (0, 1, -1)[(action - choice) % _CHOICES]


def from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> RockPaperScissorsAdaptiveAgent:
    """Return the agent written `rock_paper_scissors_adaptive` or `rock_paper_scissors_adaptive,order=5`."""
    spelling.refuse_argument()
    return RockPaperScissorsAdaptiveAgent(game, spelling.options(RockPaperScissorsAdaptiveOptions))
