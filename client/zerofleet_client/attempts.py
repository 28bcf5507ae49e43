"""Rules of both clients for failed calls: the error, whether to call again, and after which pause."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import grpc

from zerofleet_client.contracts.champions import Champion
from zerofleet_client.contracts.promotions import champion_from_wire
from zerofleet_client.contracts.wire.gatekeeper_pb2 import Champion as ChampionMessage
from zerofleet_client.errors import (
    ConfigurationError,
    InvalidRequest,
    Overloaded,
    PermissionRefused,
    Unavailable,
    ZerofleetError,
)
from zerofleet_client.operations import Call
from zerofleet_client.rpc.backoff import Backoff
from zerofleet_client.rpc.failures import FailedCall, call_error

__all__ = ["CLOSED", "Attempts", "Watch", "failed"]

CLOSED = "the client is closed"
FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 2.0
MAX_WATCH_PAUSE_S = 5.0
MAX_TIMEOUT_S = 1e9
"""Longest deadline, 30 years: grpc reads one of 300 years, and infinity, as one that has passed."""


def failed(failure: FailedCall, call: Call, target: str) -> ZerofleetError:
    """Return the error of a failed call."""
    if failure.code() is grpc.StatusCode.UNIMPLEMENTED:
        return ConfigurationError(f"{target} has no call {call.method}; want the address of a Zerofleet {call.service.value}")
    if failure.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return Unavailable(f"{target} did not answer {call.method} in time ({failure.details()}); is timeout_s too short?")
    return call_error(failure, target=target)


class Attempts:
    """Attempts of one operation: repeated while the server is overloaded, until `timeout_s` seconds are over."""

    def __init__(self, timeout_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends_s = clock() + min(timeout_s, MAX_TIMEOUT_S)
        self._backoff = _backoff(MAX_PAUSE_S)
        self._refusal: Overloaded | None = None

    def left_s(self) -> float:
        """Return the seconds that remain, as the deadline of the next attempt."""
        return max(0.0, self._ends_s - self._clock())

    def pause_s(self, error: ZerofleetError) -> float:
        """Return the pause before the next attempt; raises the error if it is final.

        An overloaded server refuses a call before it does anything, so that any call may be repeated. The last attempt may have
        little time; the error is then the refusal before.
        """
        pause_s, left_s = self._backoff.next_s(), self.left_s()
        if isinstance(error, Overloaded):
            self._refusal = error
            if pause_s < left_s:
                return pause_s
        if isinstance(error, Unavailable) and self._refusal is not None and left_s == 0:
            raise self._refusal
        raise error


class Watch:
    """Champions of one watch over all its connections: strictly increasing epochs."""

    def __init__(self) -> None:
        self._epoch = -1
        self._backoff = _backoff(MAX_WATCH_PAUSE_S)

    def accept(self, message: ChampionMessage) -> Champion | None:
        """Return the champion of a message, None if it is no later one than before."""
        self._backoff.reset()
        champion = champion_from_wire(message)
        if champion.epoch <= self._epoch:
            return None
        self._epoch = champion.epoch
        return champion

    def pause_s(self) -> float:
        """Return the pause before the next connection."""
        return self._backoff.next_s()

    @staticmethod
    def is_final(error: ZerofleetError) -> bool:
        """Return whether another connection would end in the same way."""
        return isinstance(error, InvalidRequest | PermissionRefused | ConfigurationError)


def _backoff(longest_s: float) -> Backoff:
    return Backoff(FIRST_PAUSE_S, longest_s, rng=random.Random(), least_share=0.0)  # noqa: S311 - jitter, not a secret
