"""Checkpoints on disk: two files of any learner, published by rename.

    <directory>/00000012/state.safetensors     tensors
    <directory>/00000012/checkpoint.json       counts, accounts, hash of the other file

What the files hold is the learner's (`Learning.pack`); this module writes them durably and finds the newest.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import structlog
from safetensors import SafetensorError

from zerofleet.contracts.plain_files import read_plain
from zerofleet.errors import CorruptModel, VersionSkew
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.files import TEMPORARY_SUFFIX, make_directory, sync_directory

__all__ = ["COUNTS", "KEPT_CHECKPOINTS", "TENSORS", "load_latest", "save"]

TENSORS = "state.safetensors"
COUNTS = "checkpoint.json"
KEPT_CHECKPOINTS = 2
_NUMBER = re.compile(r"[0-9]{8,18}")

Content = TypeVar("Content")

log = structlog.get_logger()


def save(directory: Path, counts: bytes, tensors: bytes) -> Path:
    """Write the next checkpoint durably and remove all but the last two; a crash leaves the previous ones.

    Raises `OSError` for a failed write; then nothing has changed, unless the directory alone cannot be written out: the new
    one is then in place, but may be lost with the power, and no other is removed. One that cannot be removed is logged, and
    its removal is tried again after the next write.
    """
    make_directory(directory)
    _sweep(directory)
    number = max(_numbers(directory), default=0) + 1
    staging = directory / f"{number:08d}{TEMPORARY_SUFFIX}"
    try:
        staging.mkdir()
        _write(staging / TENSORS, tensors)
        _write(staging / COUNTS, counts)
        sync_directory(staging)
        crash_point("trainer_checkpoint_before_rename")
        staging.rename(directory / f"{number:08d}")
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    sync_directory(directory)
    for old in _numbers(directory)[:-KEPT_CHECKPOINTS]:
        _remove(directory / f"{old:08d}")
    return directory / f"{number:08d}"


def load_latest(directory: Path, unpack: Callable[..., Content]) -> Content | None:
    """Return the newest checkpoint as `unpack(counts, tensors, where=...)` reads it, or `None` when there is none.

    Raises `CorruptModel`, with advice, when it is damaged, `VersionSkew` for another schema.
    """
    numbers = _numbers(directory)
    if not numbers:
        return None
    latest = directory / f"{numbers[-1]:08d}"
    advice = f"remove {latest} to resume from {'the previous one' if len(numbers) > 1 else 'the newest stored model'}"
    try:
        return unpack(read_plain(latest / COUNTS), read_plain(latest / TENSORS), where=str(latest))
    except VersionSkew:
        raise
    except (CorruptModel, OSError, SafetensorError) as error:
        raise CorruptModel(f"checkpoint {latest} is damaged: {error}; {advice}") from error


def _numbers(directory: Path) -> list[int]:
    if not directory.is_dir():
        return []
    return sorted(int(entry.name) for entry in directory.iterdir() if _NUMBER.fullmatch(entry.name) and entry.is_dir())


def _sweep(directory: Path) -> None:
    for staging in directory.glob(f"*{TEMPORARY_SUFFIX}"):
        shutil.rmtree(staging)


def _remove(checkpoint: Path) -> None:
    try:
        shutil.rmtree(checkpoint)
    except OSError as error:
        log.error("checkpoint.not_removed", path=str(checkpoint), error=str(error), advice="its removal is tried again")


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
