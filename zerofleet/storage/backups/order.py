"""Selection and order of the files in a backup.

The run is active during the copy, so a file that refers to another is copied before it: the referenced file then exists
when it is copied. A game that moves from the stream to the replay store is found in one or both (and counted once by its
uid); every checkpoint has its games, the journal its versions, and the champion pointer its model.

    run.json, games.db, ...  >  gatekeeper/  >  others
    >  replay: closed games files, each after its index  >  newest checkpoint  >  indexes and files closed since, the open one
    >  models: history  >  champion  >  versions  >  lease and numbers given out

Closed games files never change, but a trainer with `keep_games` deletes old ones. Most of a run's bytes are in them, so they
are copied before the checkpoint is chosen: one that vanishes until then is not needed by it, one that vanishes later may be.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from zerofleet.storage.files import TEMPORARY_SUFFIX

__all__ = ["CHECKPOINTS", "files_of_run", "versions_of_run"]

CHECKPOINTS = "replay/checkpoints/"
"""Beginning of the paths of checkpoints in a run directory."""

# Transient, local to the machine, or recreated: not part of a backup. `lost+found` belongs to the file system.
_SKIPPED = {"lock", "logs", "model_cache", "services", "sockets", "lost+found"}
_SKIPPED_SUFFIXES = (TEMPORARY_SUFFIX, ".lock", "-wal", "-shm", "-journal")
_BEFORE_VERSIONS = ("champion_history.jsonl", "champion.json", "config.pbtxt")


def files_of_run(root: Path) -> Iterator[Path]:
    """Yield the files in copy order, except those of model versions."""
    entries = [entry for entry in sorted(root.iterdir()) if not _is_skipped(entry)]
    yield from (entry for entry in entries if entry.is_file())
    folders = [entry for entry in entries if entry.is_dir() and entry.name not in {"gatekeeper", "replay", "models"}]
    for folder in (root / "gatekeeper", *folders):
        yield from _below(folder)
    yield from _replay(root / "replay")
    for model in _models(root):
        yield from (path for name in _BEFORE_VERSIONS if (path := model / name).is_file())


def versions_of_run(root: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Yield each version directory with its files, then each model directory with the model's other files."""
    for model in _models(root):
        for version in sorted((path for path in model.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name)):
            yield version, list(_below(version))
        others = (path for path in sorted(model.iterdir()) if path.is_file() and path.name not in _BEFORE_VERSIONS)
        yield model, [path for path in others if not _is_skipped(path)]


def _models(root: Path) -> list[Path]:
    models = root / "models"
    return sorted(path for path in models.iterdir() if path.is_dir() and not _is_skipped(path)) if models.is_dir() else []


def _replay(replay: Path) -> Iterator[Path]:
    """Yield the closed games files after their indexes, then the newest finished checkpoint, then the other files.

    An index is written when its file is complete, so a file with a copied index is copied complete. Files that were there when
    the checkpoint was chosen are yielded even if they have vanished since.
    """
    checkpoints = replay / "checkpoints"
    before = _without_checkpoints(replay)
    closed = {path.stem for path in before if path.suffix == ".index"}
    early = [path for path in before if path.suffix == ".index" or (path.suffix == ".games" and path.stem in closed)]
    yield from sorted(early, key=lambda path: path.suffix != ".index")
    known = _without_checkpoints(replay)
    finished = sorted(path for path in checkpoints.iterdir() if not _is_skipped(path)) if checkpoints.is_dir() else []
    for checkpoint in finished[-1:]:
        yield from _below(checkpoint)
    left = {*known, *_without_checkpoints(replay)}.difference(early)
    yield from sorted(left, key=lambda path: (path.suffix != ".index", path))


def _without_checkpoints(replay: Path) -> list[Path]:
    return [path for path in _below(replay) if replay / "checkpoints" not in path.parents]


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
