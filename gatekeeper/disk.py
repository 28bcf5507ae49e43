"""One thread for writes that must be durable before they count, and waits for them that cancellation cannot interrupt.

Reads of the model store have threads of their own: the verification of a version in an object store takes as long as its
download, which no write may wait for, nor the read of the manifest that precedes the write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

from zerofleet.rpc.calls import to_its_end

__all__ = ["Disk"]

Result = TypeVar("Result")


READERS = 4
"""Threads of reads: verifications for a decision and for a command, and manifests of candidates beside them."""


class Disk:
    """Executor of blocking work, one job at a time in a dedicated thread, and of reads; use as `with Disk() as disk`."""

    def __init__(self) -> None:
        self._readers = ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="gatekeeper-read")
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gatekeeper-disk")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._executor.shutdown(wait=True)
        self._readers.shutdown(wait=True)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Return the result of `work`, or raise its exception.

        Cancellation: the work is done or not begun, and its result is discarded.
        """
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    async def read(self, work: Callable[[], Result]) -> Result:
        """Return the result of `work`, which changes nothing, or raise its exception; in no order with other jobs.

        Cancellation: no effect; the result is discarded.
        """
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def commit(self, work: Callable[[], Result], then: Callable[[Result], None]) -> Result:
        """Run `work` and then, in the event loop, `then` with its result: both, or neither when `work` raises.

        Cancellation: raised after both are done, or `work` has failed, so that memory never lags behind the disk.
        """
        return await to_its_end(asyncio.get_running_loop().run_in_executor(self._executor, work), then)
