"""Ranks find those that are alive, whatever dead ones have left in the store."""

from __future__ import annotations

import threading

import pytest
import torch.distributed as dist

from trainer.meeting import meet
from trainer.ranks import Place
from zerofleet.errors import Unavailable


def met(store, size=3):
    """Let ranks meet in threads; returns what each wrote, as every other one reads it."""
    found, read = {}, {}
    together = threading.Barrier(size, timeout=60)

    def come(rank):
        own = meet(store, Place(rank, size), timeout_s=60)
        own.set(f"address/{rank}", f"of {id(own)}")
        found[rank] = f"of {id(own)}"
        together.wait()
        read[rank] = [own.get(f"address/{other}").decode() for other in range(size)]

    threads = [threading.Thread(target=come, args=(rank,)) for rank in reversed(range(size))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(read[rank] == [found[other] for other in range(size)] for rank in range(size))
    return found


def test_ranks_can_meet_repeatedly_in_one_store():
    store = dist.HashStore()
    first = met(store)
    assert met(store) != first
    met(store, size=2)


def test_an_absent_rank_is_reported(monkeypatch):
    monkeypatch.setattr("trainer.meeting._POLL_S", 0.001)
    store = dist.HashStore()
    met(store, size=2)  # what these have left does not stand in for the missing ones
    with pytest.raises(Unavailable, match=r"rank 0 of 2 has waited 0\.05 s for rank 1"):
        meet(store, Place(0, 2), timeout_s=0.05)
    with pytest.raises(Unavailable, match=r"rank 1 of 2 has waited 0\.05 s for rank 0"):
        meet(store, Place(1, 2), timeout_s=0.05)
