"""Namespace of process ids: the same number is another process in another container."""

from __future__ import annotations

from pathlib import Path

__all__ = ["pid_namespace"]


def pid_namespace() -> str:
    """Return the name of this process's namespace, such as `pid:[4026531836]`; empty where the system has none."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
