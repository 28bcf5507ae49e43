"""Streams in memory, in an SQLite file and in a real Redis keep the public contract."""

from __future__ import annotations

from zerofleet.storage.streams import DEAD_PAYLOAD_BYTES, StreamSettings
from zerofleet.testing import StreamContract


class TestStreams(StreamContract):
    """`make_backend` of this folder makes one of each."""


def test_all_dead_letters_together_take_a_small_part_of_a_redis_of_384_mb() -> None:
    assert StreamSettings().dead_limit * DEAD_PAYLOAD_BYTES <= 64 << 20
