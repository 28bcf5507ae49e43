"""What a worker writes is what a trainer reads, whatever the game; and nothing that arrives can do more than be refused."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import games
from games import core
from zerofleet.contracts.records import REASONS, decode_record, encode_record, validate
from zerofleet.contracts.records.samples import random_game
from zerofleet.errors import RecordRejected
from zerofleet.search import EXTERNAL

sys.path.insert(0, str(Path(__file__).parent))

from dealt import Dealt

UID = "00112233445566778899aabbccddeeff"
GAMES = [games.make("tic_tac_toe"), games.make("connect_four"), games.make("connect_four", rows=6, columns=25)]


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(game=st.sampled_from(GAMES), seed=st.integers(0, 2**63 - 1), with_targets=st.booleans())
def test_a_written_game_is_read_as_it_was_played(game: games.Game, seed: int, with_targets: bool) -> None:
    played = random_game(game, seed, version=3, with_targets=with_targets)
    data = encode_record(played, worker_id="worker-0", uid=UID)
    read = validate(decode_record(data))

    assert read.game == game
    assert (read.record.uid, read.record.worker_id, read.record.seed) == (UID, "worker-0", seed)
    assert list(read.record.moves) == played.moves.tolist()
    assert read.scores.tolist() == list(played.scores)
    columns = read.search
    assert columns.ply.tolist() == [move.ply for move in played.searched]
    assert columns.model_version.tolist() == [3] * len(played.searched)
    for row, move in enumerate(played.searched):
        entries = slice(columns.start[row], columns.start[row + 1])
        assert columns.actions[entries].tolist() == move.actions.tolist()
        assert columns.visits[entries].tolist() == move.visits.tolist()
        weights = move.target if with_targets else move.visits
        np.testing.assert_allclose(columns.policy[entries], weights / weights.sum(), rtol=1e-6)
        np.testing.assert_array_equal(columns.root_value[row], move.root_value)


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(game=st.sampled_from(GAMES), seed=st.integers(0, 2**63 - 1))
def test_replayed_states_equal_those_of_the_rules(game: games.Game, seed: int) -> None:
    played = random_game(game, seed)
    read = validate(decode_record(encode_record(played, worker_id="w", uid=UID)))
    state = games.new_state(game, seed)
    for ply, move in enumerate(played.moves):
        assert read.states[ply].tolist() == state.tolist()
        assert read.movers[ply] == core.to_move(game, state)
        games.advance(game, state, int(move))
    assert read.states[-1].tolist() == state.tolist()
    assert len(read.states) == len(read.movers) + 1 == len(played.moves) + 1


def test_the_trainer_deals_with_the_arithmetic_of_the_worker() -> None:
    game = Dealt()
    for seed in (3, 2**53 + 1, 2**63 - 1):
        read = validate(decode_record(encode_record(random_game(game, seed), worker_id="worker-0", uid=UID)))
        assert read.states[0].tolist() == games.new_state(game, seed).tolist()


def test_a_validated_game_is_immutable() -> None:
    read = validate(decode_record(encode_record(random_game(GAMES[0], 1), worker_id="w", uid=UID)))
    with pytest.raises(ValueError, match="read-only"):
        read.states[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        read.search.policy[0] = 1


def test_resigned_and_control_games_are_read() -> None:
    played = random_game(GAMES[1], 5)
    plies = len(played.moves) // 2
    loser = plies % 2
    resigned = replace(
        played,
        moves=played.moves[:plies],
        searched=played.searched[:plies],
        resigned_seat=loser,
        scores=(-1.0, 1.0) if loser == 0 else (1.0, -1.0),
    )
    read = validate(decode_record(encode_record(resigned, worker_id="w", uid=UID)))
    assert read.record.resigned_seat == loser + 1
    control = replace(played, resignation_control=True)
    assert validate(decode_record(encode_record(control, worker_id="w", uid=UID))).record.resignation_control


def test_a_seat_played_from_outside_has_version_0_and_no_search() -> None:
    played = random_game(GAMES[0], 5, version=4)
    one_sided = replace(played, versions=(4, EXTERNAL), searched=tuple(move for move in played.searched if move.ply % 2 == 0))
    read = validate(decode_record(encode_record(one_sided, worker_id="w", uid=UID)))
    assert list(read.record.seat_versions) == [4, 0]


def test_a_policy_target_rounded_entry_by_entry_is_accepted() -> None:
    """Rounding k entries to the nearest unit leaves the sum within k / 2 of one."""
    played = random_game(GAMES[1], 8)
    rng = np.random.default_rng(0)
    rounded = []
    for move in played.searched:
        policy = rng.dirichlet(np.ones(len(move.actions)))
        rounded.append(replace(move, target=np.round(policy * 65535).astype(np.uint16)))
    validate(decode_record(encode_record(replace(played, searched=tuple(rounded)), worker_id="w", uid=UID)))


def accepted_or_refused(data: bytes) -> None:
    try:
        validate(decode_record(data))
    except RecordRejected as refused:
        reason = refused.reason
    else:
        return
    assert reason in REASONS


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=400))
@example(b"")
@example(b"\x0a" + b"\xff" * 8)  # a length of 2^63
def test_random_bytes_are_refused_without_another_error(data: bytes) -> None:
    with pytest.raises(RecordRejected):
        validate(decode_record(data))


HONEST = [encode_record(random_game(game, 2), worker_id="w", uid=UID) for game in GAMES[:2]]


@pytest.mark.slow
@settings(deadline=None, max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(
    base=st.sampled_from(HONEST),
    edits=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255), st.sampled_from("xid")), min_size=1, max_size=4
    ),
)
def test_a_mutated_record_is_accepted_or_refused_without_another_error(
    base: bytes, edits: list[tuple[float, int, str]]
) -> None:
    data = bytearray(base)
    for where, byte, kind in edits:
        position = int(where * len(data))
        if kind == "x":
            data[position] = byte
        elif kind == "i":
            data.insert(position, byte)
        else:
            del data[position]
    accepted_or_refused(bytes(data))


NUMBERS = [0, 1, 2, 5, 8, 41, 42, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1]


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_mutated_fields_are_accepted_or_refused_without_another_error(data: st.DataObject) -> None:
    record = decode_record(data.draw(st.sampled_from(HONEST)))
    row = record.searched[data.draw(st.integers(0, len(record.searched) - 1))]
    field = data.draw(
        st.sampled_from(["moves", "seat_versions", "scores", "actions", "visits", "target", "root_value", "ply", "row"])
    )
    if field == "ply":
        row.ply = data.draw(st.sampled_from(NUMBERS))
    elif field == "row":
        record.searched.append(row)
    else:
        values = getattr(row if hasattr(row, field) else record, field)
        if values and data.draw(st.booleans()):
            del values[data.draw(st.integers(0, len(values) - 1))]
        else:
            floating = field in ("scores", "root_value")
            position = data.draw(st.integers(0, len(values)))
            values.insert(position, data.draw(st.floats(width=32) if floating else st.sampled_from(NUMBERS)))
    accepted_or_refused(record.SerializeToString())
