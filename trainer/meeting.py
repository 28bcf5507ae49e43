"""Rendezvous of live ranks in a store that may still contain entries of dead ones.

torchrun keeps its key-value store over a restart, so a rank could mistake the address of a dead process for that of its
successor. Hence every process has a unique name, and ranks meet under a session that all of them have agreed to:

    rank n  writes its name           rank 0  writes a session and the names it has read, repeatedly
    rank n  agrees, when its name is among them                        until all have agreed to that session
"""

from __future__ import annotations

import json
import secrets
import time
from datetime import timedelta

from torch.distributed.distributed_c10d import PrefixStore, Store

from trainer.ranks import Place
from zerofleet.errors import Unavailable

__all__ = ["meet"]

_POLL_S = 0.02
_SESSION = "zerofleet/session"


def meet(store: Store, place: Place, *, timeout_s: float) -> Store:
    """Return the part of `store` for the processes of this session. Raises `Unavailable` when some do not join in time."""
    name, deadline = secrets.token_hex(8), time.monotonic() + timeout_s
    if place.rank:
        store.set(_name_of(place.rank), name)
    session, missing = name, list(range(1, place.size))
    while True:
        if place.rank == 0:
            names = {str(rank): _read(store, _name_of(rank)) for rank in missing}
            store.set(_SESSION, json.dumps({"session": session, "names": names}))
            missing = [rank for rank in missing if not _read(store, _agreed(session, rank))]
            if not missing:
                break
        elif told := _read(store, _SESSION):
            proposed = json.loads(told)
            if proposed["names"].get(str(place.rank)) == name:
                session = proposed["session"]
                store.set(_agreed(session, place.rank), "yes")
                break
        if time.monotonic() > deadline:
            who = ", ".join(map(str, missing)) if place.rank == 0 else "0"
            raise Unavailable(
                f"rank {place.rank} of {place.size} has waited {timeout_s:g} s for rank {who}, which did not join; check why "
                "it does not start, or raise rank_timeout_s"
            )
        time.sleep(_POLL_S)
    found: Store = PrefixStore(session, store)
    found.set_timeout(timedelta(seconds=timeout_s))
    return found


def _name_of(rank: int) -> str:
    return f"zerofleet/name/{rank}"


def _agreed(session: str, rank: int) -> str:
    return f"zerofleet/agreed/{session}/{rank}"


def _read(store: Store, key: str) -> str:
    """Return the value of a key, or an empty text while it is not set."""
    return store.get(key).decode() if store.check([key]) else ""
