"""Searches of a game as columns, and their encoding beside that of the protobuf library."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerofleet.contracts.played import EXPLORATORY, FULL_SEARCH, SearchedMove, Searches
from zerofleet.contracts.records.searches import searched_bytes
from zerofleet.contracts.wire import records_pb2 as pb

NUMBERS = st.integers(0, 2**31 - 1) | st.sampled_from([0, 127, 128, 16_383, 16_384])


@st.composite
def moves(draw: st.DrawFn) -> SearchedMove:
    """Draw any searched move of a game of two players: its fields need not agree with each other."""
    count, pooled = draw(st.integers(0, 40)), draw(st.integers(0, 5))
    version = draw(st.integers(0, 2**63 - 1))
    scores = st.floats(-1, 1, width=32)
    return SearchedMove(
        ply=draw(NUMBERS),
        model_version=version,
        actions=np.array(draw(st.lists(NUMBERS, min_size=count, max_size=count)), dtype=np.int32),
        visits=np.array(draw(st.lists(NUMBERS, min_size=count, max_size=count)), dtype=np.int32),
        target=np.array(draw(st.lists(st.integers(0, 65_535), max_size=count)), dtype=np.uint16),
        root_value=np.array(draw(st.lists(scores, min_size=2, max_size=2)) if version else [], dtype=np.float32),
        flags=draw(st.integers(0, 255)),
        behaviour=draw(st.floats(0, 1, width=32)),
        pool=np.array(draw(st.lists(NUMBERS, min_size=pooled, max_size=pooled)), dtype=np.int32),
        pool_scores=np.array(draw(st.lists(scores, min_size=pooled, max_size=pooled)), dtype=np.float32),
    )


def message(move: SearchedMove) -> pb.SearchedMove:
    """Return a move as a message of the library."""
    return pb.SearchedMove(**{name: _plain(getattr(move, name)) for name in SearchedMove.__slots__})


def _plain(value: object) -> object:
    return value.tolist() if isinstance(value, np.ndarray) else value


@given(st.lists(moves(), max_size=8))
def test_the_bytes_of_searches_are_those_of_the_protobuf_library(searched: list[SearchedMove]):
    expected = pb.GameRecord(searched=[message(move) for move in searched])
    assert searched_bytes(Searches.of(searched)) == expected.SerializeToString()


@given(st.lists(moves(), max_size=4))
def test_columns_return_the_moves_that_they_were_made_of(searched: list[SearchedMove]):
    columns = Searches.of(searched)
    assert len(columns) == len(searched)
    for found, wanted in zip(columns, searched, strict=True):
        assert all(_plain(getattr(found, name)) == _plain(getattr(wanted, name)) for name in SearchedMove.__slots__)


def test_searches_are_sliced_like_any_sequence():
    columns = Searches.of([one(ply) for ply in range(5)])
    assert [move.ply for move in columns[1:4]] == [1, 2, 3]
    assert [move.ply for move in columns[::-2]] == [4, 2, 0]
    assert columns[-1].ply == 4
    with pytest.raises(IndexError):
        columns[5]


def test_columns_are_taken_as_they_are():
    columns = Searches.of([one(0)])
    assert Searches.of(columns) is columns


@pytest.mark.parametrize("name", ["ply", "model_version", "actions", "visits"])
def test_a_negative_number_is_refused_and_not_written(name: str):
    fields = {slot: getattr(one(0), slot) for slot in SearchedMove.__slots__}
    fields[name] = -1 if isinstance(fields[name], int) else np.array([-1, 3], dtype=np.int32)
    with pytest.raises(ValueError, match="is negative"):
        searched_bytes(Searches.of([SearchedMove(**fields)]))


def test_a_pool_has_a_score_for_each_action():
    fields = {slot: getattr(one(3), slot) for slot in SearchedMove.__slots__}
    fields["pool"] = np.array([1, 2], dtype=np.int32)
    with pytest.raises(ValueError, match="ply 3: a pool of 2 actions has 0 scores"):
        Searches.of([SearchedMove(**fields)])


def test_an_action_has_a_number_of_visits():
    fields = {slot: getattr(one(3), slot) for slot in SearchedMove.__slots__}
    fields["visits"] = np.array([5, 6, 7], dtype=np.int32)
    with pytest.raises(ValueError, match="ply 3: 2 actions have 3 numbers of visits"):
        Searches.of([SearchedMove(**fields)])


def test_visits_that_are_no_whole_numbers_are_refused():
    fields = {slot: getattr(one(0), slot) for slot in SearchedMove.__slots__}
    fields["visits"] = np.array([0.5, 1.5])
    with pytest.raises(TypeError, match="Cannot cast"):
        Searches.of([SearchedMove(**fields)])


def one(ply: int) -> SearchedMove:
    two, nothing = np.array([1, 3], dtype=np.int32), np.empty(0, dtype=np.uint16)
    return SearchedMove(ply, 1, two, two, nothing, np.array([0.5, -0.5], dtype=np.float32), FULL_SEARCH | EXPLORATORY)
