"""Check of the devices of a run before it is created, by a process that may import torch: this one does not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence

from zerofleet.errors import ConfigurationError

__all__ = ["require_devices"]

_TIMEOUT_S = 120.0  # torch's first import on a cold, slow disk


def require_devices(devices: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raise `ConfigurationError` if this machine lacks one of the devices. CPUs alone start no process. Blocks for seconds."""
    if set(devices) <= {"cpu"}:
        return
    try:
        done = subprocess.run(
            (sys.executable, "-m", "inference_server.device_report", *devices),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(environment),
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(
            f"devices: not found within {_TIMEOUT_S:.0f} s; try again, or see `zerofleet doctor`"
        ) from error
    if done.returncode:
        said = done.stderr.strip().rpartition("\n")[2] or f"the check of devices ended with code {done.returncode}"
        raise ConfigurationError(f"{said}; `zerofleet doctor` lists the devices")
