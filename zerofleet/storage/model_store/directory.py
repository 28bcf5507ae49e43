"""Model store in a directory: versions are directories that appear atomically, beside the champion pointer.

    <root>/<model>/config.pbtxt               for Triton: the store is a valid model repository
    <root>/<model>/<version>/                 model.pt, weights.safetensors, model.py, manifest.json
    <root>/<model>/champion.json              written by the gatekeeper alone
    <root>/<model>/champion_history.jsonl     every champion so far
    <root>/<model>/.last_version              highest version number ever allocated
    <root>/<model>/.<version>.tmp             unfinished version, ignored by readers

A version is published by rename after its files are on disk, so a listed version is complete. Numbers grow and are never
reused, even after a version was deleted or a publisher died.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO

import structlog

from games.core import Game
from zerofleet.contracts import model_checks
from zerofleet.contracts.manifests import Champion, Manifest, require_game, to_json
from zerofleet.contracts.model_checks import MANIFEST_FILE, WEIGHTS_FILE
from zerofleet.contracts.naming import is_model_name, is_version, require_model_name
from zerofleet.contracts.plain_files import NOT_A_STORED_FILE, open_plain, read_plain
from zerofleet.errors import CorruptModel, InvalidRequest, Unavailable
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.files import TEMPORARY_SUFFIX, atomic_publish, make_directory, sync_directory, try_lock
from zerofleet.storage.model_store import base
from zerofleet.storage.model_store.history import History, completed
from zerofleet.storage.model_store.known_weights import KnownWeights
from zerofleet.storage.model_store.pointer_check import POINTER_REMEDY, PointerCheck, read_pointer

__all__ = ["DirectoryStore"]

log = structlog.get_logger()

_FAULTS_OF_A_VERSION = NOT_A_STORED_FILE | {errno.EACCES, errno.EPERM, errno.ENOENT}
_UNREADABLE_SUFFIX = ".unreadable"
_CONFIG_REMEDY = "remove it: the next published version writes it"


@dataclass(frozen=True, slots=True)
class DirectoryStore:
    """Directory of models; see `ModelStore`."""

    root: Path
    max_file_bytes: int = base.MAX_FILE_BYTES
    _check: PointerCheck = field(default_factory=PointerCheck, init=False, repr=False, compare=False)
    _known: KnownWeights = field(default_factory=KnownWeights, init=False, repr=False, compare=False)

    @property
    def location(self) -> str:
        """See `ModelStore`."""
        return str(self.root)

    def models(self) -> list[str]:
        """See `ModelStore`."""
        return sorted(_folders(self.root, is_model_name))

    def versions(self, model: str) -> list[int]:
        """See `ModelStore`."""
        return sorted(map(int, _folders(self._model_directory(model), is_version)))

    def directory(self, model: str, version: int) -> Path:
        """See `ModelStore`."""
        found = self._model_directory(model) / str(version)
        if not (is_version(str(version)) and found.is_dir()):
            raise base.no_such_version(model, version, self.versions(model))
        return found

    def config(self, model: str) -> str | None:
        """See `ModelStore`."""
        path = self._model_directory(model) / "config.pbtxt"
        try:
            return None if (content := self._read(path, remedy=_CONFIG_REMEDY)) is None else content.decode()
        except UnicodeDecodeError as error:
            raise CorruptModel(f"{path} is not text ({error.reason}); {_CONFIG_REMEDY}") from error

    def manifest(self, model: str, version: int) -> Manifest:
        """See `ModelStore`."""
        return self._read_manifest(model, version)[0]

    def manifest_sha256(self, model: str, version: int) -> str:
        """See `ModelStore`."""
        return self._read_manifest(model, version)[1]

    def verify(self, model: str, version: int, *, game: Game | None = None) -> Manifest:
        """See `ModelStore`."""
        manifest = self.manifest(model, version)
        if game is not None:
            require_game(manifest, game)
        with self._reading(model, version):
            model_checks.check_files(self.directory(model, version), manifest, max_bytes=self.max_file_bytes)
        return manifest

    def publish(self, model: str, files: Mapping[str, bytes | Path], manifest: Manifest, *, config: str | None = None) -> int:
        """See `ModelStore`."""
        base.require_file_names(files)
        try:
            if (same := self._same_weights(model, files, manifest.parent_version)) is not None:
                return same
            with self._staging(model) as (version, staging):
                return self._write(staging, files, replace(manifest, model=model, version=version), config)
        except OSError as error:
            raise Unavailable(f"cannot store a version of {model} in {self.root}: {error}; nothing was changed") from error

    def delete(self, model: str, version: int) -> None:
        """See `ModelStore`."""
        directory = self.directory(model, version)
        champion = self.champion(model)
        if champion is not None and champion.version == version:
            raise InvalidRequest(f"version {version} of {model} is the champion; promote another one before deleting it")
        doomed = directory.with_name(f".{version}.deleted{TEMPORARY_SUFFIX}")
        directory.rename(doomed)
        sync_directory(doomed.parent)
        shutil.rmtree(doomed, ignore_errors=True)  # a publisher may sweep it meanwhile, or sweeps what is left of it

    def champion(self, model: str) -> Champion | None:
        """See `ModelStore`."""
        champion = self._pointer(model)
        if champion is not None:
            self._check.require_sound(model, champion, self.manifest_sha256, where=f"{self.root}/{model}/champion.json")
        return champion

    def settled_champion(self, model: str) -> Champion | None:
        """See `ModelStore`."""
        home = self._model_directory(model)
        try:
            sync_directory(home)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unavailable(
                f"cannot sync {home}: {error}; it is not certain that its champion survives a power loss"
            ) from error
        return self.champion(model)

    def history(self, model: str, *, whole: bool = False) -> list[Champion]:
        """See `ModelStore`."""
        self.champion(model)
        found = self._history(model)
        if whole and (fault := found.fault or self._moved_history(model)) is not None:
            raise fault
        return list(found.champions)

    def write_champion(self, model: str, version: int, *, epoch: int, reason: str, after: int | None = None) -> Champion:
        """See `ModelStore`."""
        exported_at_ms = self.verify(model, version).created_at_ms
        with self._lock(model, "champion"):
            base.require_leader(model, self._pointer(model), epoch=epoch, after=after)
            self._repair_history(model)
            sha256 = self.manifest_sha256(model, version)
            champion = Champion(model, version, epoch, sha256, time.time_ns() // 1_000_000, reason, exported_at_ms)
            crash_point("store_before_champion")
            try:
                atomic_publish(self._model_directory(model) / "champion.json", to_json(champion))
                crash_point("store_after_champion_before_history")
                self._append_history(model, champion)
            except OSError as error:
                raise Unavailable(f"cannot write the champion of {model} in {self.root}: {error}") from error
        return champion

    def _model_directory(self, model: str) -> Path:
        return self.root / require_model_name(model)

    @contextmanager
    def _reading(self, model: str, version: int) -> Iterator[None]:
        """Convert `OSError` to `CorruptModel` if only this version is unreadable, else to `Unavailable`."""
        try:
            yield
        except OSError as error:
            where = f"{self.root}/{model}/{version}"
            if error.errno in _FAULTS_OF_A_VERSION and os.access(self._model_directory(model), os.R_OK | os.X_OK):
                raise CorruptModel(
                    f"{where} cannot be read ({error}); correct its permissions or publish the model again"
                ) from error
            raise Unavailable(f"cannot read {where}: {error}; check the disk and try again") from error

    def _read_manifest(self, model: str, version: int) -> tuple[Manifest, str]:
        with self._reading(model, version):
            directory = self.directory(model, version)
            if directory.is_symlink():
                raise CorruptModel(f"{directory} is a link; a version must be a directory of the store itself")
            path = directory / MANIFEST_FILE
            model_checks.require_plain_file(path, max_bytes=base.MAX_MANIFEST_BYTES)
            text = read_plain(path, max_bytes=base.MAX_MANIFEST_BYTES)
        manifest = base.read_manifest(text, model, version, where=str(path))
        return manifest, hashlib.sha256(text).hexdigest()

    def _same_weights(self, model: str, files: Mapping[str, bytes | Path], parent: int) -> int | None:
        """Return an intact version whose weights file has the same content: a repeated publication."""
        weights = files.get(WEIGHTS_FILE)
        if weights is None:
            return None
        content = weights if isinstance(weights, bytes) else weights.read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        state_of = partial(self._manifest_state, model)
        return self._known.find(self, model, sha256, self.versions(model), state_of, parent=parent)

    def _manifest_state(self, model: str, version: int) -> Hashable:
        """Return the state of a version's manifest: another value once the file was replaced or written to."""
        with self._reading(model, version):
            found = (self.directory(model, version) / MANIFEST_FILE).lstat()
        return model, version, found.st_ino, found.st_mtime_ns, found.st_size

    @contextmanager
    def _staging(self, model: str) -> Iterator[tuple[int, Path]]:
        """Allocate the next number and a staging directory, locked so that no other process removes it."""
        home = self._model_directory(model)
        make_directory(home)
        with self._lock(model, "publish"):
            self._sweep(home)
            counter = self._read(home / ".last_version", remedy="remove it to continue after the highest stored version")
            version = base.next_version(counter, self.versions(model), where=str(home))
            atomic_publish(home / ".last_version", f"{version}\n")
            staging = home / f".{version}{TEMPORARY_SUFFIX}"
            staging.mkdir()
            descriptor = os.open(staging, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            yield version, staging
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        finally:
            os.close(descriptor)

    def _write(self, staging: Path, files: Mapping[str, bytes | Path], manifest: Manifest, config: str | None) -> int:
        """Fill `staging` durably, then publish it under its number."""
        for name, content in files.items():
            with (staging / name).open("xb") as out:
                _copy(content, out)
        crash_point("store_after_files_before_manifest")
        stored = {name: model_checks.describe_file(staging / name) for name in sorted(files)}
        with (staging / MANIFEST_FILE).open("xb") as out:
            _copy(to_json(replace(manifest, files=stored)), out)
        sync_directory(staging)
        home = staging.parent
        if config is not None and not _holds(home / "config.pbtxt", config):
            atomic_publish(home / "config.pbtxt", config)
        crash_point("store_after_manifest_before_rename")
        staging.rename(home / str(manifest.version))
        sync_directory(home)
        crash_point("store_after_rename")
        return manifest.version

    @staticmethod
    def _sweep(home: Path) -> None:
        """Remove unfinished versions of dead publishers, which no process holds locked."""
        for staging in home.glob(f".*{TEMPORARY_SUFFIX}"):
            try:
                descriptor = os.open(staging, os.O_RDONLY | os.O_DIRECTORY)
            except (FileNotFoundError, NotADirectoryError):  # published by a live process meanwhile
                continue
            try:
                if try_lock(descriptor):
                    shutil.rmtree(staging, ignore_errors=True)
            finally:
                os.close(descriptor)

    @contextmanager
    def _lock(self, model: str, purpose: str) -> Iterator[None]:
        """Hold an inter-process lock; the kernel releases it if the holder dies."""
        descriptor = open_plain(self._model_directory(model) / f".{purpose}.lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _pointer(self, model: str) -> Champion | None:
        """Return the pointer, not compared with any manifest: a promotion replaces a damaged one too."""
        path = self._model_directory(model) / "champion.json"
        text = self._read(path, remedy=POINTER_REMEDY)
        return None if text is None else read_pointer(text, where=str(path))

    def _history(self, model: str) -> History:
        path = self._model_directory(model) / "champion_history.jsonl"
        try:
            text = self._read(path, max_bytes=base.MAX_HISTORY_BYTES, remedy="restore it, or remove it: the champion stays")
        except CorruptModel as error:
            return History.unreadable(error).including(self._pointer(model))
        return History.parse(text or b"", where=str(path)).including(self._pointer(model))

    def _moved_history(self, model: str) -> CorruptModel | None:
        """Return the fault of a history that was moved aside: it may name former champions."""
        aside = next(self._model_directory(model).glob(f"champion_history.jsonl.*{_UNREADABLE_SUFFIX}"), None)
        if aside is None:
            return None
        return CorruptModel(f"{aside} was the history of champions and could not be read; restore its lines, or remove it")

    def _repair_history(self, model: str) -> None:
        """Rewrite the history if a crash truncated a line or left the pointer ahead of it.

        One that cannot be read is kept beside the new one, which begins with the present champion.
        """
        path = self._model_directory(model) / "champion_history.jsonl"
        try:
            stored = self._read(path, max_bytes=base.MAX_HISTORY_BYTES, remedy="move its oldest lines to another file")
        except CorruptModel as error:
            if path.is_file() and not path.is_symlink():  # too large, but with champions in it
                raise
            aside = path.with_name(f"{path.name}.{time.time_ns()}{_UNREADABLE_SUFFIX}")
            log.error("store.history_moved", error=str(error), kept_as=str(aside))
            path.rename(aside)
            stored = None
        if (wanted := completed(stored or b"", self._pointer(model), where=str(path))) != (stored or b""):
            atomic_publish(path, wanted)

    def _append_history(self, model: str, champion: Champion) -> None:
        path = self._model_directory(model) / "champion_history.jsonl"
        with os.fdopen(open_plain(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as file:
            _copy(to_json(champion, indent=None), file)

    @staticmethod
    def _read(path: Path, *, remedy: str, max_bytes: int = base.MAX_POINTER_BYTES) -> bytes | None:
        """Return the content of a small file of the store, None if absent.

        Raises `CorruptModel`, ending in `remedy`, for anything but a regular file of at most `max_bytes`; else `Unavailable`.
        """
        try:
            return read_plain(path, max_bytes=max_bytes)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in NOT_A_STORED_FILE:
                raise CorruptModel(f"{path} cannot be read ({error.strerror}); {remedy}") from error
            raise Unavailable(f"cannot read {path}: {error.strerror}; check the disk and its permissions") from error


def _folders(directory: Path, is_name: Callable[[str], bool]) -> list[str]:
    """Return the folders with such names; none where there is no directory. Raises `Unavailable`."""
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries if is_name(entry.name) and entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise Unavailable(f"cannot list {directory}: {error.strerror}; check the disk and its permissions") from error


def _copy(content: bytes | Path, out: IO[bytes]) -> None:
    if isinstance(content, bytes):
        out.write(content)
    else:
        with content.open("rb") as source:
            shutil.copyfileobj(source, out)
    out.flush()
    os.fsync(out.fileno())


def _holds(path: Path, text: str) -> bool:
    """Return whether a file can be read and holds this text."""
    try:
        return read_plain(path, max_bytes=base.MAX_POINTER_BYTES) == text.encode()
    except OSError:
        return False
