"""One row of the table, one lie: each is refused under its own reason, and the text says what was wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import games
from zerofleet.contracts.naming import MAX_RECORD_BYTES
from zerofleet.contracts.records import REASONS, GameRecord, decode_record, encode_record, new_uid, validate
from zerofleet.contracts.records.samples import random_game
from zerofleet.contracts.wire.records_pb2 import SearchedMove
from zerofleet.errors import RecordRejected

# X takes the top row, O the middle left: cells 0 3 1 4 2.
#   X X X
#   O O .
#   . . .
MOVES = [0, 3, 1, 4, 2]


def won_game() -> GameRecord:
    """X wins in five plies; plies 0 and 2 were searched."""
    return GameRecord(
        schema=1,
        uid="0123456789abcdef" * 2,
        game="tic_tac_toe",
        parameters={"size": "3"},
        rules_version=games.make("tic_tac_toe").spec().rules_version,
        seat_versions=[7, 7],
        seed=11,
        worker_id="worker-0",
        moves=MOVES,
        searched=[
            SearchedMove(ply=0, model_version=7, actions=[0, 4, 8], visits=[3, 5, 2], root_value=[0.25, -0.25], flags=1),
            SearchedMove(
                ply=2, model_version=8, actions=[1, 2], visits=[9, 1], target=[60000, 5535], root_value=[0.5, -0.5], flags=3
            ),
        ],
        scores=[1.0, -1.0],
    )


def resigned_game() -> GameRecord:
    """After three plies it is O's turn, and O resigns."""
    record = won_game()
    del record.moves[3:]
    record.resigned_seat = 2
    return record


def test_the_choice_behind_a_move_is_read() -> None:
    record = won_game()
    record.learner_seat = 2
    record.searched[1].flags, record.searched[1].behaviour = 8, 0.25
    read = validate(decode_record(record.SerializeToString()))
    assert (read.search.behaviour.tolist(), read.search.flags.tolist()) == ([0.0, 0.25], [1, 8])
    assert read.record.learner_seat == 2


def test_the_pool_behind_a_move_is_read() -> None:
    record = won_game()
    record.searched[1].pool[:], record.searched[1].pool_scores[:] = [5, 1, 2], [0.5, 0.5, -1.0]
    read = validate(decode_record(record.SerializeToString())).search
    assert (read.pool_start.tolist(), read.pool.tolist(), read.pool_scores.tolist()) == ([0, 0, 3], [5, 1, 2], [0.5, 0.5, -1.0])


def test_honest_records_are_accepted() -> None:
    assert validate(won_game()).scores.tolist() == [1.0, -1.0]
    assert validate(resigned_game()).scores.tolist() == [1.0, -1.0]


def set_fields(**fields: object) -> Callable[[GameRecord], None]:
    def change(record: GameRecord) -> None:
        for name, value in fields.items():
            if isinstance(value, list):
                del getattr(record, name)[:]
                getattr(record, name).extend(value)
            else:
                setattr(record, name, value)

    return change


def set_row(row: int, **fields: object) -> Callable[[GameRecord], None]:
    return lambda record: set_fields(**fields)(record.searched[row])


def parameters(**values: str) -> Callable[[GameRecord], None]:
    def change(record: GameRecord) -> None:
        record.parameters.clear()
        record.parameters.update(values)

    return change


NAN = float("nan")
INF = float("inf")

LIES: list[tuple[str, str, Callable[[GameRecord], object], str]] = [
    ("schema 0, as empty bytes have", "version_skew", set_fields(schema=0), "record schema 0"),
    ("schema of the future", "version_skew", set_fields(schema=2), "upgrade"),
    ("rules of the past", "version_skew", set_fields(rules_version=0), "rules version 0, here 1"),
    ("rules of the future", "version_skew", set_fields(rules_version=99), "rules version 99"),
    ("uid missing", "uid", set_fields(uid=""), "0 characters"),
    ("uid too short", "uid", set_fields(uid="ab" * 15), "32"),
    ("uid in upper case", "uid", set_fields(uid="AB" * 16), "lower-case"),
    ("uid with a line end", "uid", set_fields(uid="ab" * 16 + "\n"), "33 characters"),
    ("uid that is a path", "uid", set_fields(uid="../" * 10 + "ab"), "hex"),
    ("no worker", "worker", set_fields(worker_id=""), "worker id"),
    ("worker id with a line end", "worker", set_fields(worker_id="w\nforged log line"), "worker id"),
    ("worker id of a megabyte", "worker", set_fields(worker_id="w" * 500_000), "worker id"),
    ("unknown game", "game", set_fields(game="checkers"), "tic_tac_toe"),
    ("game name that is a path", "game", set_fields(game="../tic_tac_toe"), "no game"),
    ("game name with a NUL", "game", set_fields(game="tic_tac_toe\0"), "no game"),
    ("no game name", "game", set_fields(game=""), "no game"),
    ("parameter out of range", "game", parameters(size="4"), "size"),
    ("parameter the game has not", "game", parameters(size="3", colour="red"), "colour"),
    ("parameter that is no number", "game", parameters(size="three"), "three"),
    ("parameter of many digits", "game", parameters(size="9" * 10_000), "size"),
    ("parameter in another spelling", "game", parameters(size=" 3"), "is written ' 3', want '3'"),
    ("a thousand parameters", "game", lambda r: r.parameters.update({f"p{i}": "1" for i in range(1000)}), "1001 parameters"),
    ("one seat", "seats", set_fields(seat_versions=[7]), "1 seats"),
    ("three scores", "seats", set_fields(scores=[1.0, -1.0, 0.0]), "3 scores"),
    ("no seats, no scores", "seats", set_fields(seat_versions=[], scores=[]), "2 players"),
    ("seat version of 2^64 - 1", "seats", set_fields(seat_versions=[7, 2**64 - 1]), "2\\^63"),
    ("illegal move", "moves", set_fields(moves=[0, 0, 1, 4, 2]), "move 1 is action 0.*legal: 1 2 3"),
    ("action of another game", "moves", set_fields(moves=[0, 9, 1, 4, 2]), "action 9"),
    ("action of 2^32 - 1", "moves", set_fields(moves=[2**32 - 1, 3, 1, 4, 2]), "move 0"),
    ("move after the end", "moves", set_fields(moves=[*MOVES, 5]), "move 5 .action 5. comes after the end"),
    ("more moves than the game has", "moves", set_fields(moves=list(range(10))), "10 moves"),
    ("game cut short", "moves", set_fields(moves=MOVES[:4]), "not over after 4"),
    ("no moves at all", "search", set_fields(moves=[]), "2 searched moves in a game of 0"),
    ("result turned round", "result", set_fields(scores=[-1.0, 1.0]), "the rules give \\[1.0, -1.0\\]"),
    ("result made a draw", "result", set_fields(scores=[0.0, 0.0]), "the rules give"),
    ("result nearly right", "result", set_fields(scores=[0.99, -0.99]), "the rules give"),
    ("score of nan", "result", set_fields(scores=[NAN, -1.0]), "nan"),
    ("score of infinity", "result", set_fields(scores=[INF, -INF]), "inf"),
    ("score of 2", "result", set_fields(scores=[2.0, -2.0]), "not all in"),
    ("resigned when it was over", "resignation", set_fields(resigned_seat=2), "was over"),
    ("resigned by a third seat", "resignation", set_fields(resigned_seat=3), "seat 3 resigned"),
    ("resigned in a control game", "resignation", set_fields(resigned_seat=2, resignation_control=True), "control"),
    ("searched ply out of range", "search", set_row(1, ply=5), "ply 5 is out of range"),
    ("searched ply of 2^32 - 1", "search", set_row(1, ply=2**32 - 1), "out of range"),
    ("searched plies descend", "search", set_row(0, ply=3), "searched move"),
    ("one ply searched twice", "search", set_row(1, ply=0), "does not ascend"),
    ("actions descend", "search", set_row(0, actions=[4, 0, 8]), "do not ascend"),
    ("one action twice", "search", set_row(0, actions=[0, 0, 8]), "do not ascend"),
    ("visits on an illegal action", "search", set_row(1, actions=[0, 2]), "not all legal at ply 2"),
    ("visits beyond the board", "search", set_row(0, actions=[0, 4, 2**32 - 1]), "not all legal"),
    ("no actions", "search", set_row(0, actions=[], visits=[]), "no visits"),
    ("zero visits without a target", "search", set_row(0, visits=[0, 0, 0]), "no visits and no target"),
    ("more visits than a number holds", "search", set_row(0, visits=[2**32 - 1, 1, 1]), "more than"),
    ("fewer visits than actions", "search", set_row(0, visits=[3, 5]), "3 actions, 2 visits"),
    ("more target weights than actions", "search", set_row(1, target=[1, 1, 65533]), "3 target"),
    ("target sums to less", "search", set_row(1, target=[60000, 5500]), "sums to 65500, want 65535"),
    ("target sums to more", "search", set_row(1, target=[60000, 5600]), "sums to 65600"),
    ("target of zeros", "search", set_row(1, target=[0, 0]), "sums to 0"),
    ("target wraps round 2^32", "search", set_row(1, target=[2**32 - 1, 65536]), "sums to"),
    ("one value", "search", set_row(0, root_value=[0.5]), "1 values"),
    ("value of nan", "search", set_row(0, root_value=[NAN, 0.0]), "nan"),
    ("value of infinity", "search", set_row(0, root_value=[0.0, -INF]), "inf"),
    ("value of 1.5", "search", set_row(0, root_value=[1.5, -1.5]), "not within"),
    ("searched by version 0", "search", set_row(0, model_version=0), "version"),
    ("searched by version 2^64 - 1", "search", set_row(0, model_version=2**64 - 1), "version"),
    ("unknown flag", "search", set_row(0, flags=16), "flags 16"),
    ("probability of nan", "search", set_row(0, behaviour=NAN), "probability nan"),
    ("probability of 1.5", "search", set_row(1, behaviour=1.5), "probability 1.5"),
    ("negative probability", "search", set_row(1, behaviour=-0.5), "not within"),
    ("a pool without scores", "search", set_row(1, pool=[1]), "pool of 1 with 0 scores"),
    ("a pool without the move played", "search", set_row(1, pool=[2], pool_scores=[0.5]), "the move played among them"),
    ("a pool with a taken cell", "search", set_row(1, pool=[1, 0], pool_scores=[0.5, 0.5]), "distinct legal actions"),
    ("a pool with a move twice", "search", set_row(1, pool=[1, 1], pool_scores=[0.5, 0.5]), "distinct legal actions"),
    ("a pool with the best last", "search", set_row(1, pool=[1, 2], pool_scores=[0.1, 0.5]), "best first"),
    ("a pool with scores of nan", "search", set_row(1, pool=[1], pool_scores=[NAN]), "nan"),
    ("a pool with scores of 1.5", "search", set_row(1, pool=[1], pool_scores=[1.5]), "best first"),
    ("a third seat that learns", "seats", set_fields(learner_seat=3), "seat 3 learns"),
    ("searched by a seat without a model", "search", set_fields(seat_versions=[0, 7]), "without a model"),
    ("agents on more seats than there are", "seats", set_fields(seat_agents=["", "", "random"]), "3 agent names"),
    ("an agent where a model sat", "seats", set_fields(seat_agents=["random", ""]), "'random' and model version 7"),
    ("an agent of many words", "seats", set_fields(seat_versions=[0, 7], seat_agents=["a\nb", ""]), "seat 1 must match"),
    ("a model behind an agent's move", "search", set_fields(seat_versions=[0, 7], seat_agents=["random", ""]), "named agent"),
    ("no model behind a model's move", "search", set_row(0, model_version=0, root_value=[]), "want a positive number"),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "change", "text"), [row[1:] for row in LIES], ids=[row[0] for row in LIES])
def test_a_false_record_is_refused_with_its_reason(reason: str, change: Callable[[GameRecord], object], text: str) -> None:
    record = won_game()
    change(record)
    with pytest.raises(RecordRejected, match=text) as refused:
        validate(decode_record(record.SerializeToString()))
    assert refused.value.reason == reason
    assert reason in REASONS
    assert len(str(refused.value)) < 2000  # goes to a log


RESIGNATION_LIES = [
    ("the winner resigned", set_fields(resigned_seat=1), "seat 1 resigned when seat 2 was to move"),
    ("the resigning seat won", set_fields(scores=[-1.0, 1.0]), "want -1 for it"),
    ("a resignation for a draw", set_fields(scores=[0.0, 0.0]), "want -1 for it"),
    ("both lost", set_fields(scores=[-1.0, -1.0]), "1 for a sole opponent"),
]


@pytest.mark.parametrize(("change", "text"), [row[1:] for row in RESIGNATION_LIES], ids=[row[0] for row in RESIGNATION_LIES])
def test_a_false_resignation_is_refused(change: Callable[[GameRecord], object], text: str) -> None:
    record = resigned_game()
    change(record)
    with pytest.raises(RecordRejected, match=text) as refused:
        validate(record)
    assert refused.value.reason == "resignation"


def test_oversized_bytes_are_refused_before_they_are_parsed() -> None:
    with pytest.raises(RecordRejected, match="at most 1048576") as refused:
        decode_record(b"\xff" * (MAX_RECORD_BYTES + 1))  # no message at all: parsing would say "format"
    assert refused.value.reason == "size"


def test_a_record_of_empty_rows_at_the_size_limit_is_refused() -> None:
    empty_row = b"\x52\x00"  # field 10, length 0
    data = won_game().SerializeToString()
    data += empty_row * ((MAX_RECORD_BYTES - len(data)) // len(empty_row))
    with pytest.raises(RecordRejected, match="searched moves in a game of 5 moves"):
        validate(decode_record(data))


def test_a_deeply_nested_record_is_refused() -> None:
    groups = b"\x7b" * 10_000 + b"\x7c" * 10_000  # field 15 as a group, in itself, ten thousand times
    with pytest.raises(RecordRejected) as refused:
        decode_record(won_game().SerializeToString() + groups)
    assert refused.value.reason == "format"


def test_every_truncation_of_a_record_is_refused() -> None:
    data = won_game().SerializeToString()
    for length in range(len(data)):
        with pytest.raises(RecordRejected):
            validate(decode_record(data[:length]))


def test_a_wrong_clock_of_the_worker_is_no_reason_for_refusal() -> None:
    for claim in (-(2**63), 0, 4_102_444_800_000, 2**63 - 1):
        record = won_game()
        record.finished_at_ms = claim
        validate(record)


def test_a_missing_game_parameter_takes_its_default() -> None:
    record = won_game()
    record.parameters.clear()
    assert validate(record).game == games.make("tic_tac_toe")


def test_uids_of_one_worker_differ_by_counter_and_by_restart() -> None:
    uids = {new_uid(1, "worker-0", counter, nonce) for counter in range(100) for nonce in (5, 6)}
    uids |= {new_uid(1, "worker-1", 0, 5), new_uid(2, "worker-0", 0, 5)}
    assert len(uids) == 202
    played = random_game(games.make("tic_tac_toe"), 3)
    for uid in uids:
        validate(decode_record(encode_record(played, worker_id="worker-0", uid=uid)))
