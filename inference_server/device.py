"""Device and number format of the networks, as far as they are known without torch.

    device   GPU driver   device of the networks
    cpu      -            the CPU
    auto     absent       the CPU
    auto     present      a GPU if torch finds one, else the CPU
    cuda:0   -            the GPU, or an error from torch

torch reaches a GPU through the driver alone, so without a driver the answer needs no torch, whose import takes seconds. A
driver proves no GPU: the device may be hidden, or torch built for CPUs. Then torch decides.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from inference_server.settings import Precision
from zerofleet.errors import ConfigurationError

__all__ = ["has_gpu_driver", "is_cpu", "number_format"]

_NVIDIA_DRIVER = "libcuda.so.1"  # by this name CUDA's runtime loads it, also inside containers and WSL
_AMD_DRIVER = Path("/dev/kfd")  # device file of the kernel driver that ROCm opens


def has_gpu_driver() -> bool:
    """Return whether the driver of an NVIDIA or AMD GPU is installed here."""
    try:
        ctypes.CDLL(_NVIDIA_DRIVER)
    except OSError:
        return _AMD_DRIVER.exists()
    return True


def is_cpu(device: str) -> bool:
    """Return whether a setting of the device means the CPU for certain; else torch has to be asked."""
    return device == "cpu" or (device == "auto" and not has_gpu_driver())


def number_format(precision: Precision, *, on_gpu: bool) -> str:
    """Return the number format of a setting, such as `float32`; raises `ConfigurationError` for one that the device lacks."""
    if precision == "float16" and not on_gpu:
        raise ConfigurationError("precision=float16 needs a GPU; on a CPU use float32 or bfloat16")
    if precision == "auto":
        return "float16" if on_gpu else "float32"
    return precision
