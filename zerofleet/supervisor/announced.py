"""Services of a run as other programs find them: by the announce files, without being their parent."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
from pydantic_core import from_json

from zerofleet.storage.run_paths import RunPaths
from zerofleet.supervisor.child import ChildState

__all__ = ["AnnouncedService", "announced_services", "is_live"]


class AnnouncedService:
    """Service process that wrote an announce file; it is ended when its process is gone."""

    def __init__(self, path: Path) -> None:
        """Create it and read the file."""
        self.state = ChildState.ENDED
        self.restarts = 0
        """Number of changes of the process since this object was created."""
        self.metrics_port = 0
        self.since_s = time.monotonic()
        self._path = path
        self._pid: int | None = None
        self.look()

    @property
    def name(self) -> str:
        """Name of the service: `trainer`, `worker-0`."""
        return self._path.stem

    @property
    def pid(self) -> int | None:
        """Process id, None when the process is gone."""
        return self._pid if self.state is ChildState.READY else None

    def look(self) -> None:
        """Read the announce file again; a missing or unreadable file, or one of a dead process, is that of an ended service."""
        try:
            content = from_json(self._path.read_bytes())
            pid, port = int(content["pid"]), int(content["metrics_port"])
            process = psutil.Process(pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                raise psutil.NoSuchProcess(pid)
            age_s = time.time() - process.create_time()
        except (OSError, ValueError, KeyError, TypeError, psutil.Error):
            self.state, self.metrics_port = ChildState.ENDED, 0
            return
        if pid != self._pid:
            self.restarts += self._pid is not None
            self._pid = pid
        self.since_s = time.monotonic() - age_s
        self.state, self.metrics_port = ChildState.READY, port


def announced_services(paths: RunPaths) -> list[AnnouncedService]:
    """Return the services that announced themselves in a run, by name."""
    return [AnnouncedService(path) for path in sorted(paths.services.glob("*.json"))]


def is_live(paths: RunPaths) -> bool:
    """Return whether a service of the run is alive."""
    return any(service.pid is not None for service in announced_services(paths))
