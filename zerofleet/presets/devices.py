"""Devices of a run: one inference server evaluates on each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from zerofleet.errors import ConfigurationError

__all__ = ["check_devices", "parse_devices"]

_DEVICE = re.compile(r"cpu|cuda:(0|[1-9][0-9]{0,2})")


def parse_devices(text: str) -> tuple[str, ...]:
    """Return the devices of `cuda:0,cuda:1`; raises `ConfigurationError` for anything else."""
    devices = tuple(part.strip() for part in text.split(","))
    check_devices(devices)
    return devices


def check_devices(devices: Sequence[str]) -> None:
    """Raise `ConfigurationError` for a name that is no device; whether this machine has it is not checked.

    A device may occur more than once: each occurrence is a server.
    """
    for device in devices:
        if _DEVICE.fullmatch(device) is None:
            raise ConfigurationError(f"devices: {device!r} is not a device; want cpu or cuda:N, as in cuda:0,cuda:1")
