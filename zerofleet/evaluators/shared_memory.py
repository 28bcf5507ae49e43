"""Evaluation in shared memory by a server of the same host, with the errors and retries of `KServeEvaluator`.

A block is written once into the region, the server's device reads it there, and a packet of some 40 bytes in each direction
announces request and answer. The connection is made on first use, and again after it was lost.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from types import TracebackType
from typing import Self

import numpy as np

from games.core import Game
from zerofleet.contracts.naming import MAX_REQUEST_ROWS, model_name
from zerofleet.contracts.priorities import Priority
from zerofleet.contracts.shared_memory import PROTOCOL, Hello, rows_in, slot_bytes_of
from zerofleet.errors import InvalidRequest, Overloaded, Unavailable, ZerofleetError
from zerofleet.evaluators.answers import check_answer, refuse_answer
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion, empty_evaluation
from zerofleet.evaluators.block_link import BlockLink
from zerofleet.rpc.calls import Patience, all_of
from zerofleet.rpc.security.tokens import require_token

__all__ = ["SharedMemoryEvaluator"]

CONNECT_S = 5.0
SLOTS = 8
"""Requests in progress; further ones wait. A worker has one for each lane."""
SLOT_BYTES = 2 << 20
"""Maximum size of a slot, unless one position takes more; larger batches are split."""


class SharedMemoryEvaluator:
    """`Evaluator` that is the client of the server at `target`, `unix:/path`, on this host.

    token        token presented to the server, if it requires one
    timeout_s    deadline of one attempt
    retry_s      total time after which an overloaded or unreachable server becomes an error; 0 if the caller retries
    reconnect_s  that of an unreachable one, where it differs
    max_rows     maximum number of positions of one request; larger batches are split
    priority     priority of its requests at the server; the default is that of self-play
    on_retry     called with the failure before each retry

    Async context manager; create it inside the event loop that uses it.
    """

    def __init__(
        self,
        target: str,
        game: Game,
        *,
        token: str | None = None,
        timeout_s: float = 15.0,
        retry_s: float = 60.0,
        reconnect_s: float | None = None,
        max_rows: int = MAX_REQUEST_ROWS,
        priority: Priority = Priority.DEFAULT,
        on_retry: Callable[[ZerofleetError], None] = lambda failure: None,
        rng: random.Random | None = None,
    ) -> None:
        self.target = target
        self._model = model_name(game)
        spec = game.spec()
        slot_bytes = min(slot_bytes_of(spec, max_rows), max(SLOT_BYTES, slot_bytes_of(spec, 1)))
        self._hello = Hello(PROTOCOL, self._model, SLOTS, slot_bytes, require_token(token) if token else "")
        self._rows = {extra: rows_in(slot_bytes, spec, extra_heads=extra, most=max_rows) for extra in (False, True)}
        self._timeout_s = timeout_s
        self._retry_s = retry_s
        self._reconnect_s = retry_s if reconnect_s is None else reconnect_s
        self._priority = priority
        self._on_retry = on_retry
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._link: BlockLink | None = None
        self._closed = False
        self._connecting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def connected(self) -> bool:
        """Whether the next request needs no new connection."""
        return self._link is not None and not self._link.closed

    def close(self) -> None:
        """Disconnect for good; requests in progress and later ones fail with `Unavailable`."""
        self._closed = True
        if self._link is not None:
            self._link.close()

    async def connect(self) -> None:
        """Connect unless connected; raises as `BlockLink.open`. Cancellation: no connection is made."""
        await self._connected()

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`. The arrays of `batch` are copied for each request: they must not change before the answer.

        Also raises `CorruptModel` when an answer is not finite or of the wrong shape or type, `InvalidRequest` when the model
        has fewer extra heads than `batch.extra_heads`, and the errors of `connect`.
        Cancellation: the server drops requests it has not started; evaluate again.
        """
        if version < 1:
            raise InvalidRequest(f"model version {version} does not exist; versions begin at 1")
        if len(batch) == 0:
            return empty_evaluation(batch, version)
        rows = self._rows[batch.extra_heads > 0]
        if len(batch) <= rows:
            policy, value, *extra_heads = await self._ask(batch, version)
        else:
            cuts = [slice(start, start + rows) for start in range(0, len(batch), rows)]
            parts = [LeafBatch(batch.states[cut], batch.legal[cut], batch.extra_heads) for cut in cuts]
            answers = await all_of(self._ask(part, version) for part in parts)
            policy, value, *extra_heads = map(np.concatenate, zip(*answers, strict=True))
        return Evaluation(policy, value, version, tuple(extra_heads))

    async def _ask(self, batch: LeafBatch, version: ModelVersion) -> list[np.ndarray]:
        """Return the checked outputs, with jittered back-off while the server is overloaded or unreachable."""
        began_s, patience = asyncio.get_running_loop().time(), None
        while True:
            try:
                link = self._link if self._link is not None and not self._link.closed else await self._connected()
                found = await link.evaluate(batch, version, timeout_s=self._timeout_s, priority=self._priority)
                if len(found) != 2 + batch.extra_heads:
                    refuse_answer((self._model, version), f"{len(found)} outputs, want {2 + batch.extra_heads}")
                return check_answer(found, batch.legal.shape, (self._model, version))
            except (Overloaded, Unavailable) as error:
                patience = patience or Patience(self._time_s, rng=self._rng, began_s=began_s)
                pause_s, failure = patience.pause_s(error), error
                if pause_s is None or self._closed:
                    raise
            await asyncio.sleep(pause_s)
            self._on_retry(failure)

    def _time_s(self, error: ZerofleetError) -> float:
        return self._retry_s if isinstance(error, Overloaded) else self._reconnect_s

    async def _connected(self) -> BlockLink:
        async with self._connecting:  # one of several callers connects
            if not self._closed and (self._link is None or self._link.closed):
                self._link = await BlockLink.open(self.target, self._hello, timeout_s=CONNECT_S)
            if self._closed or self._link is None:
                self.close()  # a connection that was made meanwhile
                raise Unavailable(f"{self.target}: the evaluator was closed; make another one")
            return self._link
