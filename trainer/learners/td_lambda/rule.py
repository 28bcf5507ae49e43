"""Update rule of TD(lambda) on a perceptron, compiled.

For the successive positions s, s' of one seat, with the reward r of the step (0 before the end of the game):

    e     <- gamma lambda e + grad V(s)
    theta <- theta + alpha (r + gamma V(s') - V(s)) e

Gradient and both values belong to the weights before the update; traces begin at 0 in each game; the value of the end of the
game is 0, so that the last target is its reward (Sutton and Barto 1998, section 8.3). Several seats share the weights and have
traces of their own; their updates alternate as the positions occurred.

With lambda = 0 the trace is the gradient, and only the weight rows of inputs other than 0 change.

Axes: N positions of a game, I inputs, H units of a hidden layer, M hidden layers after the first, P players.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from games.compiled import compiled
from zerofleet.evaluators.in_process.inputs import InputTable, read_inputs_of
from zerofleet.evaluators.in_process.kernels import Perceptron, hidden_and_value

__all__ = ["Episode", "Rates", "Rule", "Traces", "Workspace", "add_gradient", "learn", "new_traces", "new_workspace"]


class Episode(NamedTuple):
    """Positions of one game from which its seats learn, in the order of play."""

    states: np.ndarray  # uint8 [N, packed_bytes]
    seats: np.ndarray  # int8 [N], the seat that learns from the position
    cut: np.ndarray  # bool [N]; no value of the position is learned, and the seat's traces end
    end_cut: np.ndarray  # bool [P]; the same for the end of the game
    rewards: np.ndarray  # float64 [P], reward of each seat at the end


class Rates(NamedTuple):
    """Constants of the rule."""

    learning_rate: float
    discount: float
    trace_decay: float


class Traces(NamedTuple):
    """Eligibility traces of every seat, shaped as the weights; empty where lambda is 0."""

    hidden: np.ndarray  # float64 [P, I, H]
    hidden_bias: np.ndarray  # float64 [P, H]
    out: np.ndarray  # float64 [P, H]
    out_bias: np.ndarray  # float64 [P, 1]
    deep: np.ndarray  # float64 [P, M, H, H]
    deep_bias: np.ndarray  # float64 [P, M, H]


class Workspace(NamedTuple):
    """Scratch arrays of an update."""

    x: np.ndarray  # float64 [I], inputs of the position looked at last
    active: np.ndarray  # int32 [I], numbers of those that are not 0
    hidden: np.ndarray  # float64 [M + 1, H], activations
    slope: np.ndarray  # float64 [M + 1, H], dV/dz
    last: np.ndarray  # int64 [P]


class Rule(NamedTuple):
    """Weights with everything that their updates need."""

    net: Perceptron  # float64
    table: InputTable  # inputs of the positions
    traces: Traces
    rates: Rates
    work: Workspace


def new_traces(net: Perceptron, players: int, trace_decay: float) -> Traces:
    """Return traces of zeros; without rows if `trace_decay` is 0, where none are needed."""
    seats = players if trace_decay > 0.0 else 0
    return Traces(*(np.zeros((seats, *array.shape)) for array in net))


def new_workspace(net: Perceptron, players: int) -> Workspace:
    """Return scratch arrays for the updates of a perceptron."""
    inputs, units = net.hidden.shape
    layers = 1 + len(net.deep)
    return Workspace(
        np.zeros(inputs),
        np.zeros(inputs, np.int32),
        np.zeros((layers, units)),
        np.zeros((layers, units)),
        np.zeros(players, np.int64),
    )


@compiled
def learn(rule: Rule, episode: Episode) -> tuple[int, float, float]:
    """Learn from one game: change the weights in place.

    Returns the number of updates, the sum of the squared temporal differences and the largest of their absolute values.
    """
    last = rule.work.last
    updates, squares, largest = 0, 0.0, 0.0
    for seat in range(last.shape[0]):
        _clear(rule.traces, seat)
        last[seat] = -1
    for row in range(episode.seats.shape[0]):
        seat = episode.seats[row]
        before, last[seat] = last[seat], row
        if episode.cut[row]:
            _clear(rule.traces, seat)
        elif before >= 0:
            target = rule.rates.discount * _value(rule, episode.states[row])
            difference = _update(rule, episode.states[before], seat, target)
            updates, squares, largest = updates + 1, squares + difference**2, max(largest, abs(difference))
    for seat in range(last.shape[0]):
        if last[seat] >= 0 and not episode.end_cut[seat]:
            difference = _update(rule, episode.states[last[seat]], seat, episode.rewards[seat])
            updates, squares, largest = updates + 1, squares + difference**2, max(largest, abs(difference))
    return updates, squares, largest


@compiled
def _value(rule: Rule, state: np.ndarray) -> float:
    work = rule.work
    count = read_inputs_of(rule.table, state, work.x, work.active)
    return hidden_and_value(rule.net, work.x, work.active, count, work.hidden)


@compiled
def _clear(traces: Traces, seat: int) -> None:
    if traces.out.shape[0]:
        traces.hidden[seat] = 0.0
        traces.hidden_bias[seat] = 0.0
        traces.out[seat] = 0.0
        traces.out_bias[seat] = 0.0
        traces.deep[seat] = 0.0
        traces.deep_bias[seat] = 0.0


@compiled
def _update(rule: Rule, state: np.ndarray, seat: int, target: float) -> float:
    """Move V(state) towards the target r + gamma V(s'); return the temporal difference before the update."""
    net, traces, rates, work = rule.net, rule.traces, rule.rates, rule.work
    if traces.out.shape[0] == 0:
        count = read_inputs_of(rule.table, state, work.x, work.active)
        value = hidden_and_value(net, work.x, work.active, count, work.hidden)
        _move(rule, count, rates.learning_rate * (target - value), _slopes(rule, value))
        return target - value
    _decay(traces, seat, rates.discount * rates.trace_decay)
    difference = target - add_gradient(rule, state, seat)
    step = rates.learning_rate * difference
    inputs, units = net.hidden.shape
    hidden, hidden_bias, out = traces.hidden[seat], traces.hidden_bias[seat], traces.out[seat]
    for i in range(inputs):
        for j in range(units):
            net.hidden[i, j] += step * hidden[i, j]
    for j in range(units):
        net.hidden_bias[j] += step * hidden_bias[j]
        net.out[j] += step * out[j]
    net.out_bias[0] += step * traces.out_bias[seat, 0]
    for layer in range(net.deep_bias.shape[0]):
        deep, deep_bias = traces.deep[seat, layer], traces.deep_bias[seat, layer]
        for i in range(units):
            for j in range(units):
                net.deep[layer, i, j] += step * deep[i, j]
            net.deep_bias[layer, i] += step * deep_bias[i]
    return difference


@compiled
def _decay(traces: Traces, seat: int, factor: float) -> None:
    hidden, hidden_bias, out = traces.hidden[seat], traces.hidden_bias[seat], traces.out[seat]
    inputs, units = hidden.shape
    for i in range(inputs):
        for j in range(units):
            hidden[i, j] *= factor
    for j in range(units):
        hidden_bias[j] *= factor
        out[j] *= factor
    traces.out_bias[seat, 0] *= factor
    for layer in range(traces.deep_bias.shape[1]):
        deep, deep_bias = traces.deep[seat, layer], traces.deep_bias[seat, layer]
        for i in range(units):
            for j in range(units):
                deep[i, j] *= factor
            deep_bias[i] *= factor


@compiled
def _slopes(rule: Rule, value: float) -> float:
    """Write dV/dz_j of all layers into the workspace and return dV/dz of the output; the workspace holds the activations."""
    net, work = rule.net, rule.work
    slope_out = value * (1.0 - value)
    units, last = net.out.shape[0], net.deep_bias.shape[0]
    slope, hidden = work.slope[last], work.hidden[last]
    for j in range(units):
        slope[j] = slope_out * net.out[j] * hidden[j] * (1.0 - hidden[j])
    for layer in range(last - 1, -1, -1):
        above, slope, hidden = work.slope[layer + 1], work.slope[layer], work.hidden[layer]
        for i in range(units):
            row, total = net.deep[layer, i], 0.0
            for j in range(units):
                total += row[j] * above[j]
            slope[i] = total * hidden[i] * (1.0 - hidden[i])
    return slope_out


@compiled
def _move(rule: Rule, count: int, step: float, slope_out: float) -> None:
    """Add `step` times the gradient to the weights."""
    net, work = rule.net, rule.work
    units, last = net.out.shape[0], net.deep_bias.shape[0]
    slope, hidden = work.slope[0], work.hidden[last]
    for k in range(count):
        row, change = net.hidden[work.active[k]], step * work.x[work.active[k]]
        for j in range(units):
            row[j] += change * slope[j]
    for j in range(units):
        net.hidden_bias[j] += step * slope[j]
        net.out[j] += step * slope_out * hidden[j]
    net.out_bias[0] += step * slope_out
    for layer in range(last):
        above, below = work.slope[layer + 1], work.hidden[layer]
        for i in range(units):
            row, change = net.deep[layer, i], step * below[i]
            for j in range(units):
                row[j] += change * above[j]
            net.deep_bias[layer, i] += step * above[i]


@compiled
def add_gradient(rule: Rule, state: np.ndarray, seat: int) -> float:
    """Add the gradient of V(state) to the traces of a seat, and return V(state)."""
    net, traces, work = rule.net, rule.traces, rule.work
    count = read_inputs_of(rule.table, state, work.x, work.active)
    value = hidden_and_value(net, work.x, work.active, count, work.hidden)
    slope_out = _slopes(rule, value)
    units, last = net.out.shape[0], net.deep_bias.shape[0]
    slope, hidden = work.slope[0], work.hidden[last]
    for k in range(count):
        row, number = traces.hidden[seat, work.active[k]], work.x[work.active[k]]
        for j in range(units):
            row[j] += number * slope[j]
    for j in range(units):
        traces.hidden_bias[seat, j] += slope[j]
        traces.out[seat, j] += slope_out * hidden[j]
    traces.out_bias[seat, 0] += slope_out
    for layer in range(last):
        above, below = work.slope[layer + 1], work.hidden[layer]
        for i in range(units):
            row, number = traces.deep[seat, layer, i], below[i]
            for j in range(units):
                row[j] += number * above[j]
            traces.deep_bias[seat, layer, i] += above[i]
    return value
