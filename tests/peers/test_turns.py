"""Turns of a measured player: their length, their counts, and their form as lines."""

from __future__ import annotations

import io
import json

import pytest

from benchmarks.peers.rules import Board
from benchmarks.peers.turns import Counts, Turn, clock_for, random_openings, require_jax_on, take_turns

STEP = Counts(evaluations=40, simulations=50, plies=2, games=1)


class Steps:
    """Player whose steps take a second each."""

    def __init__(self):
        self.taken = 0

    def step(self):
        self.taken += 1

    def counts(self):
        return Counts(*(each * self.taken for each in (STEP.evaluations, STEP.simulations, STEP.plies, STEP.games)))

    def seconds(self):
        return float(self.taken)


def turns_of(*requests):
    """Return the turns that a player takes on requests."""
    play, out = Steps(), io.StringIO()
    take_turns(play, "steps 1.0", clock=play.seconds, requests=requests, out=out)
    return [Turn.read(json.loads(line)) for line in out.getvalue().splitlines()]


def test_a_turn_lasts_until_its_time_is_reached():
    assert [turn.counts.games for turn in turns_of("3.0\n", "2.5\n")] == [3, 3]


def test_a_turn_without_time_has_one_step():
    (turn,) = turns_of("0\n")
    assert turn.counts == STEP


def test_a_turn_counts_from_its_own_beginning():
    first, second = turns_of("4\n", "1\n")
    assert (first.counts.evaluations, second.counts) == (160, STEP)


def test_a_turn_names_its_player_and_has_its_times():
    (turn,) = turns_of("1\n")
    assert turn.player == "steps 1.0"
    assert turn.cpu_s >= 0
    assert turn.wall_s > 0


def test_a_line_without_counts_is_no_turn():
    with pytest.raises(TypeError, match="counts is 3"):
        Turn.read({"counts": 3, "cpu_s": 1.0, "wall_s": 1.0})


def test_counts_are_added_and_subtracted_field_by_field():
    assert STEP + STEP - STEP == STEP
    assert (STEP + STEP).simulations == 100


def test_random_openings_are_unfinished_and_at_different_plies():
    openings = random_openings(64)
    assert not any(Board(moves).over for moves in openings)
    assert len({len(moves) for moves in openings}) > 10


def test_random_openings_are_the_same_for_every_player():
    assert random_openings(8) == random_openings(8)


def test_turns_on_a_processor_are_measured_in_its_own_time():
    assert clock_for("cpu") is not clock_for("cuda")


@pytest.mark.parametrize(("device", "backend"), [("cuda", "cpu"), ("cpu", "gpu")])
def test_another_device_than_the_chosen_one_is_refused(device, backend):
    with pytest.raises(SystemExit, match=f"JAX runs on {backend}, not on {device}"):
        require_jax_on(device, backend)


def test_a_gpu_of_jax_is_the_device_cuda():
    require_jax_on("cuda", "gpu")
