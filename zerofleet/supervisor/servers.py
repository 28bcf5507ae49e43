"""Inference servers of a run: one process, or one for each of several devices.

devices         servers                                    workers ask       versions are loaded on
none or one     inference_server                           it                it
N               inference_server-0 .. inference_server-N-1 worker i: i mod N all N, before a promotion counts
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zerofleet.storage.run_paths import RunPaths
from zerofleet.supervisor.counters import Meter, Totals
from zerofleet.supervisor.pages import MetricsPage

__all__ = ["PlannedServer", "ServerMeter", "is_server", "planned_servers"]

SERVER = "inference_server"
_POSITIONS = "zerofleet_inference_positions_total"
_DEVICE = "zerofleet_inference_device"


@dataclass(frozen=True, slots=True)
class PlannedServer:
    """An inference server before its start."""

    name: str
    """Name of the process."""
    address: str
    device: str
    """Its device; empty: that of its settings."""


def planned_servers(paths: RunPaths, devices: Sequence[str]) -> tuple[PlannedServer, ...]:
    """Return the servers of a run; the first one also serves the gatekeeper, evaluations and people."""
    if len(devices) < 2:
        return (PlannedServer(SERVER, paths.inference_address, "".join(devices)),)
    return tuple(
        PlannedServer(f"{SERVER}-{index}", paths.device_address(index), device) for index, device in enumerate(devices)
    )


def is_server(name: str) -> bool:
    """Return whether a process of this name is an inference server."""
    return name == SERVER or name.startswith(f"{SERVER}-")


class ServerMeter:
    """Shares of several inference servers in the evaluated positions of the last half minute, from their metrics."""

    def __init__(self) -> None:
        self._totals: dict[str, Totals] = {}
        self._meters: dict[str, Meter] = {}
        self._devices: dict[str, str] = {}

    def take(self, at_s: float, pages: Mapping[str, MetricsPage]) -> None:
        """Add the newest page of each service, by name."""
        for name, page in pages.items():
            if is_server(name):
                totals = self._totals.setdefault(name, Totals())
                totals.take(name, page)
                self._meters.setdefault(name, Meter()).take(at_s, {_POSITIONS: totals.of(_POSITIONS)})
                self._devices[name] = next(iter(page.by(_DEVICE, "device")), "")

    @property
    def devices(self) -> frozenset[str]:
        """Devices of the servers that have stated one."""
        return frozenset(self._devices.values()) - {""}

    def device(self, name: str) -> str:
        """Return the device of one of several servers; empty for other services, and where there is one server."""
        return self._devices.get(name, "") if len(self._devices) > 1 else ""

    def share(self, name: str) -> float:
        """Return the share of one of several servers in the evaluated positions, in [0, 1]; NaN for unknown."""
        rates = {known: meter.per_second(_POSITIONS) for known, meter in self._meters.items()}
        total = math.fsum(rate for rate in rates.values() if math.isfinite(rate))
        return rates[name] / total if len(rates) > 1 and name in rates and total > 0 else math.nan
