"""Services of a run that another process supervises, watched by their announce files: `zerofleet status`."""

from __future__ import annotations

import time
from collections.abc import Iterable

from zerofleet.service.compilation_note import Compilation, note_path, read_note
from zerofleet.storage.run_paths import RunPaths
from zerofleet.supervisor.child import ChildState
from zerofleet.supervisor.overview import ServiceFile, live_service

__all__ = ["AttachedService", "attach"]


class AttachedService:
    """A service that this process did not start; the observer reads it like a child."""

    def __init__(self, paths: RunPaths, found: ServiceFile) -> None:
        self.name = found.name
        """Name of the service: `trainer`, `worker-0`."""
        self.restarts = 0
        """Restarts since this process watches it."""
        self._paths = paths
        self._found: ServiceFile | None = found
        self._pid = found.pid

    def look(self) -> None:
        """Read the announce file again: the service may have ended, or have been restarted."""
        self._found = live_service(self._paths.announce(self.name))
        if self._found is not None and self._found.pid != self._pid:
            self._pid = self._found.pid
            self.restarts += 1

    @property
    def state(self) -> ChildState:
        """Ready while it is announced and alive."""
        return ChildState.READY if self._found is not None else ChildState.ENDED

    @property
    def metrics_port(self) -> int:
        """Port of /metrics; 0 while it is not alive."""
        return self._found.metrics_port if self._found is not None else 0

    @property
    def pid(self) -> int | None:
        """Process id, None while it is not alive."""
        return self._found.pid if self._found is not None else None

    @property
    def compiling(self) -> Compilation | None:
        """Compilation in progress; None without one."""
        return read_note(note_path(self._paths.announce(self.name)), self.pid)

    @property
    def since_s(self) -> float:
        """Start of the current process, on the monotonic clock."""
        return time.monotonic() - (time.time() - self._found.started_at_s) if self._found is not None else time.monotonic()


def attach(services: list[AttachedService], paths: RunPaths, found: Iterable[ServiceFile]) -> None:
    """Add the live services of a run that `services` lacks, in the order of names; for an observer of the list."""
    known = {service.name for service in services}
    services += [AttachedService(paths, one) for one in found if one.name not in known]
    services.sort(key=lambda service: service.name)
