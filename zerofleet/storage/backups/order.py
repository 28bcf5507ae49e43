"""Which files of a run are copied, and in which order.

A run goes on while it is copied, so a file that names another is copied before it: what it names is then there when its
turn comes. A game that leaves the stream for the replay store is found in the first, the second, or both (and counted once
by its uid); a checkpoint finds its games, the journal its versions, and the champion pointer its model.

    run.json, games.db, ...  >  gatekeeper/  >  others  >  replay/checkpoints  >  replay/*.index  >  replay/*.games
    >  models: history  >  champion  >  versions  >  lease and numbers given out
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from zerofleet.storage.files import TEMPORARY_SUFFIX

__all__ = ["files_of_run", "versions_of_run"]

# Of this moment and this machine, or made anew: no part of a backup. `lost+found` is the file system's own.
_SKIPPED = {"lock", "logs", "model_cache", "services", "sockets", "lost+found"}
_SKIPPED_SUFFIXES = (TEMPORARY_SUFFIX, ".lock", "-wal", "-shm", "-journal")
_BEFORE_VERSIONS = ("champion_history.jsonl", "champion.json", "config.pbtxt")


def files_of_run(root: Path) -> Iterator[Path]:
    """Yield the files in the order in which they are to be copied, without those of model versions."""
    entries = [entry for entry in sorted(root.iterdir()) if not _is_skipped(entry)]
    yield from (entry for entry in entries if entry.is_file())
    folders = [entry for entry in entries if entry.is_dir() and entry.name not in {"gatekeeper", "replay", "models"}]
    for folder in (root / "gatekeeper", *folders):
        yield from _below(folder)
    yield from _replay(root / "replay")
    for model in _models(root):
        yield from (path for name in _BEFORE_VERSIONS if (path := model / name).is_file())


def versions_of_run(root: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Yield each model's directory of a version with its files, then the model's other files, with no directory."""
    for model in _models(root):
        for version in sorted((path for path in model.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name)):
            yield version, list(_below(version))
        others = (path for path in sorted(model.iterdir()) if path.is_file() and path.name not in _BEFORE_VERSIONS)
        yield model, [path for path in others if not _is_skipped(path)]


def _models(root: Path) -> list[Path]:
    models = root / "models"
    return sorted(path for path in models.iterdir() if path.is_dir() and not _is_skipped(path)) if models.is_dir() else []


def _replay(replay: Path) -> Iterator[Path]:
    """Yield the newest checkpoint, then the index of every closed file of games, then the games.

    An index is written when its file is complete, so a file whose index was seen is complete when it is copied.
    """
    checkpoints = replay / "checkpoints"
    for checkpoint in sorted(checkpoints.iterdir())[-1:] if checkpoints.is_dir() else []:
        yield from _below(checkpoint)
    files = [path for path in _below(replay) if checkpoints not in path.parents]
    yield from (path for path in files if path.suffix == ".index")
    yield from (path for path in files if path.suffix != ".index")


def _below(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if _is_skipped(path) or path.is_symlink():
            continue
        if path.is_dir():
            yield from _below(path)
        else:
            yield path


def _is_skipped(path: Path) -> bool:
    return path.name in _SKIPPED or path.name.endswith(_SKIPPED_SUFFIXES)
