"""Errors of torch by their texts: memory that is exhausted, and a device or its libraries that fail.

torch has a class for the memory of its own allocator alone; the driver, cuBLAS and cuDNN end in plain `RuntimeError`s. In low
memory cuBLAS makes no handle, and cuDNN refuses every engine, since each needs a workspace. None of it is the fault of the
network that was to be evaluated. The texts are those of torch's sources and of reports: no shortage was produced on a card.
"""

from __future__ import annotations

import re

import torch

__all__ = ["has_no_engine", "is_of_device", "is_out_of_memory", "reason_of"]

_EXHAUSTED = re.compile(
    r"out of memory|not enough memory|(can't|cannot|failed to|unable to) allocate|bad_alloc|ALLOC(ATION)?_FAILED"
    r"|CUBLAS_STATUS_NOT_INITIALIZED",
    re.IGNORECASE,
)
_NO_ENGINE = re.compile(r"(FIND|GET) was unable to find an engine")
# Not the bare name: torch lists "CUDA" among the devices for which an operation of a network is absent.
_DEVICE = re.compile(r"CUDA (error|driver)|CUDACachingAllocator|cuBLAS|CUBLAS_|cuDNN|CUDNN_")


def is_out_of_memory(error: Exception) -> bool:
    """Return whether memory of host or device was exhausted; true for `has_no_engine` as well."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return bool(_EXHAUSTED.search(str(error))) or has_no_engine(error)


def has_no_engine(error: Exception) -> bool:
    """Return whether cuDNN had no engine for a convolution: one that it does not support, or too little memory for any."""
    return bool(_NO_ENGINE.search(str(error)))


def is_of_device(error: Exception) -> bool:
    """Return whether an error is that of a CUDA device or of its libraries, its memory included."""
    return is_out_of_memory(error) or bool(_DEVICE.search(str(error)))


def reason_of(error: Exception) -> str:
    """Return the line of an error that states the fault, else the first; its type for an empty one.

    CUDA adds advice for debugging below the fault. TorchScript puts the lines of the network above it.
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return next((line for line in lines if any(fault.search(line) for fault in (_EXHAUSTED, _NO_ENGINE, _DEVICE))), lines[0])
