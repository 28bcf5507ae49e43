"""Version in service: its manifest, the form of its requests, its network and its statistics."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from inference_server.network import Network, NetworkOutput, Pending, begin
from inference_server.queueing import BatchReport
from inference_server.statistics import VersionStatistics
from inference_server.tensors import Contract
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.priorities import Priority
from zerofleet.telemetry import metrics

__all__ = ["ServedVersion"]


@dataclass(frozen=True, eq=False, slots=True)
class ServedVersion:
    """A version in service."""

    manifest: Manifest
    contract: Contract
    network: Network
    statistics: VersionStatistics = field(default_factory=VersionStatistics)
    _counted: Any = field(init=False, repr=False)  # positions of the model, of all its versions

    def __post_init__(self) -> None:
        """Look up the counter once: each batch increments it."""
        object.__setattr__(self, "_counted", metrics.INFERENCE_POSITIONS.labels(model=self.manifest.model))

    @property
    def version(self) -> int:
        """Number of the version."""
        return self.manifest.version

    @property
    def backend(self) -> str:
        """See `Network.backend`."""
        return self.network.backend

    @property
    def precision(self) -> str:
        """See `Network.precision`."""
        return self.network.precision

    def evaluate(self, states: list[np.ndarray], legal: list[np.ndarray]) -> NetworkOutput:
        """See `Network.evaluate`."""
        return self.network.evaluate(states, legal)

    def begin(self, states: list[np.ndarray], legal: list[np.ndarray]) -> Pending:
        """See `QueueingNetwork.begin`; a network without it evaluates the batch before this returns."""
        return begin(self.network, states, legal)

    def count(self, report: BatchReport) -> None:
        """See `CountedNetwork.count`."""
        self.statistics.add_batch(report)
        self._counted.inc(report.rows)
        metrics.INFERENCE_BATCH_SIZE.observe(report.rows)
        metrics.INFERENCE_BUSY.inc(report.compute_s)
        metrics.INFERENCE_PROCESSOR.inc(report.processor_s)
        for wait in report.waits:
            _queue_time(wait.priority).observe(wait.seconds)


@functools.cache
def _queue_time(priority: Priority) -> Any:
    """Return the histogram of a priority, looked up once: each request is observed."""
    return metrics.INFERENCE_QUEUE_TIME.labels(priority=str(priority.value))
