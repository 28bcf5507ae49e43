"""`python -m inference_server.device_report cuda:0 cuda:1`: check that this machine has these devices.

For `zerofleet run --devices`, which imports no torch. Ends with 2 and one line on standard error if a device is missing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from inference_server.device import has_gpu_driver
from zerofleet.errors import ConfigurationError

__all__ = ["check_present", "main"]


def check_present(devices: Sequence[str], gpus: int) -> None:
    """Raise `ConfigurationError` if one of the devices is not the CPU and not among this number of GPUs."""
    known = ["cpu", *(f"cuda:{number}" for number in range(gpus))]
    if missing := [device for device in devices if device not in known]:
        found = {0: "no GPU", 1: "1 GPU"}.get(gpus, f"{gpus} GPUs")
        raise ConfigurationError(f"device {missing[0]} does not exist: torch finds {found}; want {' or '.join(known)}")


def main() -> int:
    """Check the devices of the command line; return the exit code."""
    try:
        check_present(sys.argv[1:], _gpus())
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _gpus() -> int:
    if not has_gpu_driver():
        return 0
    import torch  # noqa: PLC0415  takes seconds, and decides nothing without a driver

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


if __name__ == "__main__":
    sys.exit(main())
