"""Update rule of TD(lambda): gradients, traces worked out by hand, a chain with known values."""

import math

import numpy as np
import pytest

from games.core import make
from games.reading import read_inputs
from trainer.learners.td_lambda.rule import (
    Episode,
    Rates,
    Rule,
    add_gradient,
    learn,
    new_traces,
    new_workspace,
)
from zerofleet.evaluators.in_process.inputs import InputTable, input_table
from zerofleet.evaluators.in_process.kernels import Perceptron, perceptron_of

FIELDS = Perceptron._fields


def perceptron(inputs, units, seed=0, layers=1):
    rng = np.random.default_rng(seed)
    sizes = ((inputs, units), units, units, 1, (layers - 1, units, units), (layers - 1, units))
    return Perceptron(*(rng.normal(size=size) for size in sizes))


def bits_as_inputs(count):
    every = np.arange(count + 1, dtype=np.int32)
    return InputTable(every, every[:-1].copy(), np.ones(count), np.zeros(count))


def rule_of(net, *, rate=0.1, discount=0.9, decay=0.5, traced=None, players=2, table=None):
    traced = decay > 0 if traced is None else traced
    return Rule(
        net,
        bits_as_inputs(len(net.hidden)) if table is None else table,
        new_traces(net, players, 1.0 if traced else 0.0),
        Rates(rate, discount, decay),
        new_workspace(net, players),
    )


def packed(*rows):
    """One byte for each position; its set bits are the inputs that are on."""
    return np.array([[sum(1 << bit for bit in bits)] for bits in rows], np.uint8)


def episode(states, *, seats=None, cut=None, end_cut=(False, False), rewards=(1.0, 0.0)):
    count = len(states)
    return Episode(
        states,
        np.array([0] * count if seats is None else seats, np.int8),
        np.array([False] * count if cut is None else cut),
        np.array(end_cut),
        np.array(rewards),
    )


def bits_of(net, state):
    return np.unpackbits(state, bitorder="little")[: len(net.hidden)].astype(float)


def value(net, state, inputs_of=bits_of):
    hidden = 1 / (1 + np.exp(-(inputs_of(net, state) @ net.hidden + net.hidden_bias)))
    for weights, bias in zip(net.deep, net.deep_bias, strict=True):
        hidden = 1 / (1 + np.exp(-(hidden @ weights + bias)))
    return float(1 / (1 + np.exp(-(hidden @ net.out + net.out_bias[0]))))


def copied(net):
    return Perceptron(*(array.copy() for array in net))


def numeric_gradient(net, state, inputs_of=bits_of, step=1e-6):
    parts = []
    for name in FIELDS:
        array = getattr(net, name)
        part = np.zeros_like(array)
        for place in np.ndindex(array.shape):
            up, down = copied(net), copied(net)
            getattr(up, name)[place] += step
            getattr(down, name)[place] -= step
            part[place] = (value(up, state, inputs_of) - value(down, state, inputs_of)) / (2 * step)
        parts.append(part)
    return parts


def reference(net, played, *, rate, discount, decay, inputs_of=bits_of):
    """The rule as the papers write it, with numeric gradients."""
    net, traces, last = copied(net), {}, {}

    def update(row, seat, target):
        old, slope = traces.get(seat, [0.0] * len(FIELDS)), numeric_gradient(net, played.states[row], inputs_of)
        traces[seat] = [discount * decay * e + g for e, g in zip(old, slope, strict=True)]
        difference = target - value(net, played.states[row], inputs_of)
        for name, trace in zip(FIELDS, traces[seat], strict=True):
            getattr(net, name)[...] += rate * difference * trace

    for row, seat in enumerate(played.seats.tolist()):
        if played.cut[row]:
            traces.pop(seat, None)
        elif seat in last:
            update(last[seat], seat, discount * value(net, played.states[row], inputs_of))
        last[seat] = row
    for seat in sorted(last):
        if not played.end_cut[seat]:
            update(last[seat], seat, played.rewards[seat])
    return net


def assert_close(one, two, tolerance):
    for name in FIELDS:
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=0, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_gradient_agrees_with_finite_differences(layers):
    net = perceptron(8, 3, layers=layers)
    rule = rule_of(net)
    state = packed([0, 3, 7])[0]
    assert add_gradient(rule, state, 1) == pytest.approx(value(net, state), abs=1e-14)
    for name, wanted in zip(FIELDS, numeric_gradient(net, state), strict=True):
        np.testing.assert_allclose(getattr(rule.traces, name)[1], wanted, atol=1e-9)
        assert not getattr(rule.traces, name)[0].any()
    assert rule.traces.deep.shape == (2, layers - 1, 3, 3)


def test_three_steps_with_traces_agree_with_a_calculation_by_hand():
    """One input, one hidden unit: w, b, u, c are the four weights; the positions are on, off, on, and the game is won."""
    w, b, u, c = 0.5, -0.25, 1.5, 0.1
    rate, discount, decay = 0.1, 0.9, 0.6
    net = perceptron_of(
        {"hidden": np.array([[w]]), "hidden_bias": np.array([b]), "out": np.array([u]), "out_bias": np.array([c])}
    )

    def squash(x):
        return 1 / (1 + math.exp(-x))

    e_w = e_b = e_u = e_c = 0.0
    for now, then in ((1, 0), (0, 1), (1, None)):
        h = squash(w * now + b)
        v = squash(u * h + c)
        target = 1.0 if then is None else discount * squash(u * squash(w * then + b) + c)
        g_c = v * (1 - v)
        g_u = g_c * h
        g_b = g_c * u * h * (1 - h)
        g_w = g_b * now
        fade = discount * decay
        e_w, e_b, e_u, e_c = fade * e_w + g_w, fade * e_b + g_b, fade * e_u + g_u, fade * e_c + g_c
        step = rate * (target - v)
        w, b, u, c = w + step * e_w, b + step * e_b, u + step * e_u, c + step * e_c

    played = episode(packed([0], [], [0]))
    updates, _, _ = learn(rule_of(net, rate=rate, discount=discount, decay=decay), played)
    assert updates == 3
    got = [net.hidden[0, 0], net.hidden_bias[0], net.out[0], net.out_bias[0]]
    np.testing.assert_allclose(got, [w, b, u, c], rtol=0, atol=1e-12)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("decay", [0.0, 0.7])
def test_both_seats_learn_in_the_order_of_play_with_traces_of_their_own(decay, layers):
    net = perceptron(8, 3, seed=2, layers=layers)
    played = episode(packed([0], [1, 2], [0, 3], [4], [5, 6, 7]), seats=[0, 1, 0, 1, 0], rewards=(0.0, 1.0))
    wanted = reference(net, played, rate=0.3, discount=0.9, decay=decay)
    updates, squares, largest = learn(rule_of(net, rate=0.3, decay=decay), played)
    assert updates == 5
    assert 0 < largest**2 <= squares
    assert_close(net, wanted, 1e-8)


@pytest.mark.parametrize("decay", [0.0, 0.7])
@pytest.mark.parametrize("encoding", ["naive", "extended", "feature"])
def test_a_network_learns_the_numbers_that_its_encoding_stands_for(encoding, decay):
    """Numbers other than bits, such as -1 for a stone of the other player, and one number for the whole position."""
    game = make("connect_four", rows=4, columns=4, encoding=encoding)
    spec = game.spec()
    states = np.random.default_rng(1).integers(0, 256, (4, spec.packed_bytes), dtype=np.uint8)

    def inputs_of(_net, state):
        planes = np.unpackbits(state, bitorder="little")[: math.prod(spec.planes)].reshape(spec.planes)
        return read_inputs(planes, spec.reading).astype(float)

    net = perceptron(spec.num_inputs, 3, seed=9)
    played = episode(states, seats=[0, 1, 0, 1])
    wanted = reference(net, played, rate=0.3, discount=0.9, decay=decay, inputs_of=inputs_of)
    updates, _, _ = learn(rule_of(net, rate=0.3, decay=decay, table=input_table(spec)), played)
    assert updates == 4
    assert_close(net, wanted, 1e-8)


@pytest.mark.parametrize("decay", [0.0, 0.7])
def test_nothing_is_learned_from_a_cut_position_and_the_traces_end_there(decay):
    net = perceptron(8, 3, seed=3)
    played = episode(
        packed([0], [1], [2], [3], [4], [5]), seats=[0, 1, 0, 1, 0, 1], cut=[0, 0, 1, 0, 0, 0], end_cut=(False, True)
    )
    played = played._replace(cut=played.cut.astype(bool))
    wanted = reference(net, played, rate=0.3, discount=0.9, decay=decay)
    updates, _, _ = learn(rule_of(net, rate=0.3, decay=decay), played)
    assert updates == 4  # 2 to 4, 1 to 3, 3 to 5, and the end of seat 0
    assert_close(net, wanted, 1e-8)


@pytest.mark.parametrize("layers", [1, 3])
def test_without_traces_the_result_is_that_of_traces_that_decay_at_once(layers):
    one, two = perceptron(8, 5, seed=4, layers=layers), perceptron(8, 5, seed=4, layers=layers)
    played = episode(packed([0, 1], [2], [3, 4], [5, 7]), seats=[0, 1, 0, 1])
    learn(rule_of(one, decay=0.0, traced=False), played)
    learn(rule_of(two, decay=0.0, traced=True), played)
    assert_close(one, two, 1e-15)


def test_traces_that_never_decay_learn_the_result_of_the_game():
    """For a small rate, lambda = 1 sums the temporal differences to R - V(s) for each position (Sutton and Barto 1998, 7.4)."""
    net, rate = perceptron(8, 3, seed=5), 1e-7
    before = copied(net)
    states = packed([0], [1, 2], [3, 4, 5])
    learn(rule_of(net, rate=rate, discount=1.0, decay=1.0), episode(states))
    for index, name in enumerate(FIELDS):
        moved = (getattr(net, name) - getattr(before, name)) / rate
        wanted = sum((1.0 - value(before, s)) * numeric_gradient(before, s)[index] for s in states)
        np.testing.assert_allclose(moved, wanted, atol=1e-5)


@pytest.mark.parametrize("layers", [1, 2])
def test_traces_of_one_game_do_not_reach_the_next(layers):
    one, two = perceptron(8, 3, seed=6, layers=layers), perceptron(8, 3, seed=6, layers=layers)
    first, second = episode(packed([0], [1])), episode(packed([2], [3]), rewards=(0.0, 1.0))
    rule = rule_of(one, decay=0.9)
    learn(rule, first)
    learn(rule, second)
    learn(rule_of(two, decay=0.9), first)
    learn(rule_of(two, decay=0.9), second)
    assert_close(one, two, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("decay", [0.0, 0.8])
def test_the_values_of_a_random_walk_are_learned(decay):
    """Five states in a row; left of them is a loss, right a win: the values are 1/6 to 5/6 (Sutton and Barto 1998, 6.2)."""
    rng = np.random.default_rng(7)
    net = perceptron(5, 8, seed=8)
    rule = rule_of(net, discount=1.0, decay=decay)
    games = 12_000
    for game in range(games):
        place, path = 2, []
        while 0 <= place < 5:
            path.append([place])
            place += int(rng.integers(2)) * 2 - 1
        rates = Rates(0.5 * (1 - game / games) + 0.002, 1.0, decay)
        learn(rule._replace(rates=rates), episode(packed(*path), rewards=(float(place == 5), 0.0)))
    values = [value(net, state) for state in packed([0], [1], [2], [3], [4])]
    np.testing.assert_allclose(values, [1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6], atol=0.05)
