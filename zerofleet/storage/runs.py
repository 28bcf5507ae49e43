"""Run directory: all state of a run, used by one supervisor at a time.

`run.json` stores game, parameters and preset of the run. Opening it for another game is refused, so that networks and games
of different rules never mix. The lock is the kernel's (flock): it ends with its process.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from games.core import make
from games.positions import changed_parameters, title_of
from zerofleet.contracts.plain_files import open_plain, read_plain
from zerofleet.errors import ConfigurationError, RunDirectoryError, Unavailable
from zerofleet.storage.files import TEMPORARY_SUFFIX, atomic_publish, make_directory, sync_directory, try_lock
from zerofleet.storage.run_paths import RunPaths

__all__ = ["RUN_SCHEMA", "RunDirectory", "RunHeader", "RunPaths", "check_seed", "read_header", "require_run"]

RUN_SCHEMA = 1
SEED_END = 1 << 63  # limit of every service and of experiment files
_PRIVATE = 0o700
_MAX_HEADER_BYTES = 1 << 20
_OF_NO_RUN = {"lock", "lost+found"}  # allowed in an empty directory; the second is the file system's, on a new volume


class RunHeader(BaseModel):
    """Content of `run.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=None)

    schema_version: int = Field(default=RUN_SCHEMA, alias="schema")
    game: str
    parameters: dict[str, str]
    """Parameters that differ from the game's defaults, as text."""
    rules_version: int
    preset: str
    seed: int = Field(ge=0, lt=SEED_END)
    """Root of the seeds of all games."""
    created_at: AwareDatetime

    @property
    def title(self) -> str:
        """Game with its parameters."""
        return title_of(self.game, self.parameters)


class RunDirectory:
    """Open, locked run directory; a context manager."""

    def __init__(self, paths: RunPaths, header: RunHeader, lock: int, *, is_new: bool) -> None:
        self.paths = paths
        self.header = header
        self.is_new = is_new
        self._lock: int | None = lock

    @classmethod
    def create_or_open(
        cls, root: Path, game: str, parameters: Mapping[str, str], *, preset: str | None = None, seed: int | None = None
    ) -> Self:
        """Open and lock the run at `root`; create it if the directory is absent or empty.

        An existing run keeps its seed, whatever `seed` is; `preset` None accepts any preset. Raises `RunDirectoryError` when
        the directory is in use, is not a run, or is a run of another game or version; `ConfigurationError` for a seed out of
        range; `GameError` for an unknown game; `OSError` on a disk error.
        """
        if seed is not None:
            check_seed(seed)
        _require_text(root)
        paths = RunPaths(root)
        is_new = not paths.header.exists()
        if is_new:
            _check_empty(root)
        make_directory(root)
        lock = _take_lock(paths)
        try:
            wanted = _new_header(game, parameters, preset or "laptop", seed)
            if paths.header.exists():
                header = _check_same(root, read_header(root), wanted, preset)
            else:
                header = wanted
                _publish(paths, header)
            for directory in (paths.models, paths.replay, paths.gatekeeper, paths.logs, paths.metrics, paths.services):
                directory.mkdir(exist_ok=True)
            _make_private(paths.sockets)
            sync_directory(root)
        except BaseException:
            os.close(lock)
            raise
        return cls(paths, header, lock, is_new=is_new)

    def close(self) -> None:
        """Unlock the directory; idempotent."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def check_seed(seed: int) -> None:
    """Raise `ConfigurationError` unless a run seed is in the range of all services."""
    if not 0 <= seed < SEED_END:
        raise ConfigurationError(f"seed {seed} is out of range; give one from 0 to 2^63 - 1, or none for a random one")


def _make_private(directory: Path) -> None:
    """Create the directory of the sockets with access for this user only: sockets have no other access control."""
    directory.mkdir(mode=_PRIVATE, exist_ok=True)
    found = directory.lstat()
    if found.st_uid != os.geteuid() or not stat.S_ISDIR(found.st_mode):
        raise RunDirectoryError(f"{directory} is not a directory of this user's (owner {found.st_uid}); remove it")
    directory.chmod(_PRIVATE)


def read_header(root: Path) -> RunHeader:
    """Return the content of `run.json` in `root`, without locking.

    Raises `RunDirectoryError` when it is absent, unreadable or of another schema.
    """
    _require_text(root)
    path = RunPaths(root).header
    try:
        content = from_json(read_plain(path, max_bytes=_MAX_HEADER_BYTES))
    except FileNotFoundError:
        if not root.exists():
            raise RunDirectoryError(f"there is no folder {root}; `zerofleet runs` lists the runs") from None
        raise RunDirectoryError(f"{root} is not a run directory: it has no run.json; name the directory of a run") from None
    except (OSError, ValueError) as error:
        raise RunDirectoryError(f"{path} cannot be read: {error}; restore it or start a new run elsewhere") from error
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != RUN_SCHEMA:
        raise RunDirectoryError(
            f"{root} was written by another version of Zerofleet: run.json has schema {schema}, this one reads {RUN_SCHEMA}; "
            "use that version, or another --run-dir"
        )
    try:
        return RunHeader.model_validate(content)
    except ValidationError as error:
        fault = error.errors()[0]
        raise RunDirectoryError(f"{path}: {'.'.join(map(str, fault['loc']))}: {fault['msg']}; restore the file") from error


def require_run(root: Path, game: str, parameters: Mapping[str, str], *, preset: str) -> RunHeader:
    """Return the header of the run in a service's own directory `root`; write it if absent.

    For services started separately, each with its own volume. Raises `RunDirectoryError` when the directory holds a run of
    another game or version, `Unavailable` on a disk error.
    """
    _require_text(root)
    paths = RunPaths(root)
    wanted = _new_header(game, parameters, preset, None)
    if paths.header.exists():
        return _check_same(root, read_header(root), wanted, None)
    try:
        make_directory(root)
        _publish(paths, wanted)
    except OSError as error:
        raise Unavailable(f"cannot write {paths.header}: {error}") from error
    return wanted


def _require_text(root: Path) -> None:
    """Raise `RunDirectoryError` unless the path is text: addresses, settings and JSON hold no other bytes."""
    try:
        str(root.absolute()).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(root.absolute()).decode(errors="backslashreplace")
        raise RunDirectoryError(
            f"the path {shown} is not text in this locale ({sys.getfilesystemencoding()}); rename the directory, or set"
            " PYTHONUTF8=1 if its name is UTF-8"
        ) from None


def _publish(paths: RunPaths, header: RunHeader) -> None:
    atomic_publish(paths.header, header.model_dump_json(by_alias=True, indent=2) + "\n")


def _new_header(game: str, parameters: Mapping[str, str], preset: str, seed: int | None) -> RunHeader:
    built = make(game, **parameters)
    return RunHeader(
        schema=RUN_SCHEMA,
        game=game,
        parameters=changed_parameters(built),
        rules_version=built.spec().rules_version,
        preset=preset,
        seed=secrets.randbits(48) if seed is None else seed,
        created_at=datetime.now(UTC),
    )


def _check_same(root: Path, stored: RunHeader, wanted: RunHeader, preset: str | None) -> RunHeader:
    if (stored.game, stored.parameters) != (wanted.game, wanted.parameters):
        raise RunDirectoryError(
            f"{root} is a run of {stored.title}, not of {wanted.title}; choose another --run-dir, or run {stored.title}"
        )
    if stored.rules_version != wanted.rules_version:
        raise RunDirectoryError(
            f"{root} was made with rules version {stored.rules_version} of {stored.game}, this program has "
            f"{wanted.rules_version}; its games and models are incompatible, choose another --run-dir"
        )
    if preset is not None and stored.preset != preset:
        raise RunDirectoryError(
            f"{root} was started with --preset {stored.preset}, not {preset}; continue it with --preset {stored.preset}, "
            "or choose another --run-dir"
        )
    return stored


def _check_empty(root: Path) -> None:
    if root.exists() and not root.is_dir():
        raise RunDirectoryError(f"{root} is a file; --run-dir takes a directory")
    if root.is_dir() and any(not _is_of_no_run(entry) for entry in root.iterdir()):
        raise RunDirectoryError(f"{root} is not empty and not a run directory (no run.json); choose another --run-dir")


def _is_of_no_run(path: Path) -> bool:
    """Return whether a path may be in a directory without a run, as what a start left that was killed while it wrote run.json.

    So may an empty folder, such as the mount point of another volume.
    """
    if path.name in _OF_NO_RUN or (path.name.startswith("run.json.") and path.name.endswith(TEMPORARY_SUFFIX)):
        return True
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


def _take_lock(paths: RunPaths) -> int:
    descriptor = open_plain(paths.lock, os.O_RDWR | os.O_CREAT, 0o644)
    if not try_lock(descriptor):
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        os.close(descriptor)
        raise RunDirectoryError(
            f"{paths.root} is in use by process {holder or 'unknown'}; stop that run first, or choose another --run-dir"
        )
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor
