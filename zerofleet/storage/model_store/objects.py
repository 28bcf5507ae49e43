"""Model store in an object store: the manifest is written last, the champion by a conditional write.

    <prefix>/<model>/config.pbtxt               for Triton: the prefix is a valid model repository
    <prefix>/<model>/<version>/                 model.pt, weights.safetensors, model.py, and manifest.json when complete
    <prefix>/<model>/champion.json              written by the gatekeeper alone, over the pointer that it has read
    <prefix>/<model>/champion_history.jsonl     every champion so far
    <prefix>/<model>/.last_version              highest version number ever allocated
    <prefix>/<model>/.conditions                probe for the server's support of conditional writes

A version exists once its manifest does. There are no locks: a number is allocated and the pointer replaced by
compare-and-swap, so that one of two concurrent writers succeeds. Files are copied to a local cache, checked and loaded from
there.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from games.core import Game
from zerofleet.contracts import model_checks
from zerofleet.contracts.manifests import Champion, Manifest, StoredFile, require_game, to_json
from zerofleet.contracts.model_checks import MANIFEST_FILE, WEIGHTS_FILE
from zerofleet.contracts.naming import is_model_name, is_version, require_model_name
from zerofleet.errors import CorruptModel, InvalidRequest, StaleEpoch, Unavailable
from zerofleet.rpc.backoff import Backoff
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.model_store import base
from zerofleet.storage.model_store.bucket import Bucket, ChangedMeanwhileError, Content, Listed
from zerofleet.storage.model_store.cache import ModelCache
from zerofleet.storage.model_store.history import History, completed
from zerofleet.storage.model_store.known_weights import KnownWeights
from zerofleet.storage.model_store.pointer_check import PointerCheck, read_pointer

__all__ = ["ObjectStore"]

UPLOAD_LIMIT_S = 3_600.0
"""Maximum time between the first file of a version and its manifest; a slower publisher gives up."""
ABANDONED_S = 86_400.0
"""Age at which files without a manifest are removed, as their publisher must be dead."""
_NUMBER_ATTEMPTS = 50
_NUMBER_PAUSE_S = 0.1


class ObjectStore:
    """Models below `s3://bucket/prefix`; see `ModelStore`."""

    def __init__(
        self,
        bucket: Bucket,
        cache: ModelCache,
        *,
        max_file_bytes: int = base.MAX_FILE_BYTES,
        rng: random.Random | None = None,
    ) -> None:
        self._bucket = bucket
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._cache = cache
        self._max_file_bytes = max_file_bytes
        self._check = PointerCheck()
        self._known = KnownWeights()

    @property
    def location(self) -> str:
        """See `ModelStore`."""
        return self._bucket.url

    def models(self) -> list[str]:
        """See `ModelStore`."""
        return sorted(name for name in self._bucket.folders() if is_model_name(name))

    def versions(self, model: str) -> list[int]:
        """See `ModelStore`."""
        return sorted(_manifests(self._objects(model)))

    def directory(self, model: str, version: int) -> Path:
        """See `ModelStore`. Copies are checked when they are made; `verify` checks them again.

        Also raises `CorruptModel`, `VersionSkew` and `Unavailable`.
        """
        listed = self._version_objects(model, version)
        told = "\n".join([self.location, *(f"{one.key} {one.etag} {one.size}" for one in listed)])
        name = f"{model}-{version}-{hashlib.sha256(told.encode()).hexdigest()[:32]}"
        return self._cache.directory(name, lambda directory: self._download(model, version, listed, directory))

    def config(self, model: str) -> str | None:
        """See `ModelStore`."""
        found = self._read(f"{require_model_name(model)}/config.pbtxt")
        try:
            return None if found is None else found.data.decode()
        except UnicodeDecodeError as error:
            where = f"{self.location}/{model}/config.pbtxt"
            raise CorruptModel(
                f"{where} is not text ({error.reason}); remove it: the next published version writes it"
            ) from error

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
        copy = self.directory(model, version)
        try:
            try:
                model_checks.check_files(copy, manifest, max_bytes=self._max_file_bytes)
            except CorruptModel:  # the local copy was damaged, or the stored version has changed
                self._cache.discard(copy)
                model_checks.check_files(self.directory(model, version), manifest, max_bytes=self._max_file_bytes)
        except OSError as error:
            raise Unavailable(
                f"cannot read the copy {copy} of {self.location}/{model}/{version}: {error}; try again"
            ) from error
        return manifest

    def publish(self, model: str, files: Mapping[str, bytes | Path], manifest: Manifest, *, config: str | None = None) -> int:
        """See `ModelStore`."""
        base.require_file_names(files)
        try:
            stored = {name: _describe(content) for name, content in sorted(files.items())}
        except OSError as error:
            raise Unavailable(f"cannot read the files to store for {model}: {error}; nothing was changed") from error
        found = self._objects(model)
        if (same := self._same_weights(model, stored, found, manifest.parent_version)) is not None:
            return same
        self._bucket.require_conditions(f"{model}/.conditions")
        self._sweep(found)
        version = self._take_number(model, found)
        began_s = time.monotonic()
        for name, content in files.items():
            self._bucket.write(f"{model}/{version}/{name}", content)
            crash_point("store_between_objects")
        if config is not None:
            former = self._bucket.read(f"{model}/config.pbtxt", max_bytes=base.MAX_POINTER_BYTES)
            if former is None or former.data != config.encode():
                self._bucket.write(f"{model}/config.pbtxt", config.encode())
        crash_point("store_after_files_before_manifest")
        if time.monotonic() - began_s > UPLOAD_LIMIT_S:
            raise Unavailable(f"version {version} of {model} took too long to store in {self.location}; it was not published")
        complete = to_json(replace(manifest, model=model, version=version, files=stored))
        try:
            self._bucket.create(f"{model}/{version}/{MANIFEST_FILE}", complete)
        except ChangedMeanwhileError as error:
            raise Unavailable(f"version {version} of {model} already exists; was .last_version removed? try again") from error
        crash_point("store_after_manifest")
        return version

    def delete(self, model: str, version: int) -> None:
        """See `ModelStore`."""
        listed = self._version_objects(model, version)
        champion = self.champion(model)
        if champion is not None and champion.version == version:
            raise InvalidRequest(f"version {version} of {model} is the champion; promote another one before deleting it")
        self._bucket.remove(f"{model}/{version}/{MANIFEST_FILE}")
        for one in listed:
            self._bucket.remove(one.key)

    def champion(self, model: str) -> Champion | None:
        """See `ModelStore`."""
        champion = self._pointer(model)[0]
        if champion is not None:
            self._check.require_sound(model, champion, self.manifest_sha256, where=f"{self.location}/{model}/champion.json")
        return champion

    def settled_champion(self, model: str) -> Champion | None:
        """See `ModelStore`: what can be read of an object store is durable."""
        return self.champion(model)

    def history(self, model: str, *, whole: bool = False) -> list[Champion]:
        """See `ModelStore`."""
        present = self.champion(model)  # read first: every earlier champion has its line
        where, stored = self._read_history(model)
        found = History.parse(stored.data if stored else b"", where=where).including(present)
        if whole and found.fault is not None:
            raise found.fault
        return list(found.champions)

    def write_champion(self, model: str, version: int, *, epoch: int, reason: str, after: int | None = None) -> Champion:
        """See `ModelStore`. Of two writers that read the same pointer one succeeds; the other raises `StaleEpoch`."""
        exported_at_ms = self.verify(model, version).created_at_ms
        self._bucket.require_conditions(f"{model}/.conditions")
        present, former = self._pointer(model)
        base.require_leader(model, present, epoch=epoch, after=after)
        where, history = self._read_history(model)
        text = history.data if history else b""
        if (complete := completed(text, present, where=where)) != text:
            history = self._write_history(model, complete, history)
        sha256 = self.manifest_sha256(model, version)
        champion = Champion(model, version, epoch, sha256, time.time_ns() // 1_000_000, reason, exported_at_ms)
        crash_point("store_before_champion")
        try:
            self._bucket.replace(f"{model}/champion.json", to_json(champion), former)
        except ChangedMeanwhileError as error:
            raise StaleEpoch(
                f"champion of {model} was replaced while epoch {epoch} was written: another holder leads"
            ) from error
        crash_point("store_after_champion_before_history")
        with suppress(StaleEpoch):  # a successor has already added this champion's line before its own
            self._write_history(model, complete + to_json(champion, indent=None), history)
        return champion

    def _objects(self, model: str) -> list[Listed]:
        return self._bucket.listing(f"{require_model_name(model)}/")

    def _version_objects(self, model: str, version: int) -> list[Listed]:
        """Return the objects of a version; raises `ModelNotFound` without a manifest among them."""
        prefix = f"{require_model_name(model)}/{version}/"
        listed = self._bucket.listing(prefix) if is_version(str(version)) else []
        if not any(one.key == prefix + MANIFEST_FILE for one in listed):
            raise base.no_such_version(model, version, self.versions(model))
        return listed

    def _read_manifest(self, model: str, version: int) -> tuple[Manifest, str]:
        where = f"{self.location}/{require_model_name(model)}/{version}/{MANIFEST_FILE}"
        found = None
        if is_version(str(version)):
            found = self._bucket.read(f"{model}/{version}/{MANIFEST_FILE}", max_bytes=base.MAX_MANIFEST_BYTES)
        if found is None:
            raise base.no_such_version(model, version, self.versions(model))
        if len(found.data) > base.MAX_MANIFEST_BYTES:
            raise CorruptModel(f"{where} has more than {base.MAX_MANIFEST_BYTES} bytes")
        return base.read_manifest(found.data, model, version, where=where), hashlib.sha256(found.data).hexdigest()

    def _download(self, model: str, version: int, listed: Sequence[Listed], directory: Path) -> None:
        """Copy the objects of a version and check them; damaged copies are fetched once more."""
        where = f"{self.location}/{model}/{version}"
        manifest = self.manifest(model, version)
        prefix = f"{model}/{version}/"
        model_checks.require_contents(manifest, where=f"{where}/{MANIFEST_FILE}")
        for one in listed:
            if one.key.removeprefix(prefix) not in {*manifest.files, MANIFEST_FILE}:
                raise CorruptModel(f"{where} holds {one.key.removeprefix(prefix)}, which the manifest does not name; remove it")
            if one.size > self._max_file_bytes:
                raise CorruptModel(f"{one.key} has {one.size} bytes, at most {self._max_file_bytes} are allowed")
        for last in (False, True):
            try:
                for one in listed:
                    path = directory / one.key.removeprefix(prefix)
                    path.unlink(missing_ok=True)
                    self._bucket.download(one, path)
                model_checks.check_files(directory, manifest, max_bytes=self._max_file_bytes)
            except ChangedMeanwhileError as error:
                raise Unavailable(f"{where} changed while it was read; try again") from error
            except CorruptModel as error:
                if last:
                    raise type(error)(f"{where} is corrupt: {error}".replace(str(directory), where)) from error
            else:
                return

    def _same_weights(self, model: str, files: Mapping[str, StoredFile], found: Sequence[Listed], parent: int) -> int | None:
        """Return an intact version whose weights file has the same content: a repeated publication."""
        weights = files.get(WEIGHTS_FILE)
        if weights is None:
            return None
        manifests = _manifests(found)

        def state_of(version: int) -> Hashable:
            return manifests[version].key, manifests[version].etag

        return self._known.find(self, model, weights.sha256, manifests, state_of, parent=parent)

    def _sweep(self, found: Sequence[Listed]) -> None:
        """Remove the remains of dead publishers and interrupted deletions: old files of versions without a manifest."""
        complete, now_s = set(_manifests(found)), time.time()
        for one in found:
            version = _version(one)
            if version and version not in complete and now_s - one.modified_at_s > ABANDONED_S:
                self._bucket.remove(one.key)

    def _take_number(self, model: str, found: Sequence[Listed]) -> int:
        """Allocate the next version number, to one publisher only."""
        stored = [version for one in found if (version := _version(one))]
        key = f"{model}/.last_version"
        backoff = Backoff(_NUMBER_PAUSE_S, _NUMBER_PAUSE_S, rng=self._rng, least_share=0.0)
        for _ in range(_NUMBER_ATTEMPTS):
            counter = self._bucket.read(key, max_bytes=64)
            number = base.next_version(counter.data if counter else None, stored, where=f"{self.location}/{model}")
            try:
                self._bucket.replace(key, f"{number}\n".encode(), counter)
            except ChangedMeanwhileError:
                time.sleep(backoff.next_s())
                continue
            return number
        raise Unavailable(f"too many concurrent publishers of {model} in {self.location}; nothing was changed, try again")

    def _read(self, key: str, *, max_bytes: int = base.MAX_POINTER_BYTES) -> Content | None:
        """Return an object, None if absent; raises `CorruptModel` when it is larger than `max_bytes`."""
        found = self._bucket.read(key, max_bytes=max_bytes)
        if found is not None and len(found.data) > max_bytes:
            raise CorruptModel(f"{self.location}/{key} has more than {max_bytes} bytes; restore it from a backup")
        return found

    def _pointer(self, model: str) -> tuple[Champion | None, Content | None]:
        key = f"{require_model_name(model)}/champion.json"
        found = self._read(key)
        return (None if found is None else read_pointer(found.data, where=f"{self.location}/{key}")), found

    def _read_history(self, model: str) -> tuple[str, Content | None]:
        """Return the place of the history, for messages, and the object, None if absent."""
        key = f"{require_model_name(model)}/champion_history.jsonl"
        return f"{self.location}/{key}", self._read(key, max_bytes=base.MAX_HISTORY_BYTES)

    def _write_history(self, model: str, text: bytes, former: Content | None) -> Content:
        """Replace the history that was read; raises `StaleEpoch` when another gatekeeper has written it."""
        key = f"{model}/champion_history.jsonl"
        try:
            etag = self._bucket.replace(key, text, former)
        except ChangedMeanwhileError as error:
            raise StaleEpoch(f"the history of {model}'s champions was written by another holder: it leads") from error
        return Content(text, etag)


def _version(listed: Listed) -> int:
    """Return the version of an object, 0 for none."""
    parts = listed.key.split("/")
    return int(parts[1]) if len(parts) > 2 and is_version(parts[1]) else 0


def _manifests(found: Sequence[Listed]) -> dict[int, Listed]:
    """Return the manifests among objects, by version."""
    return {_version(one): one for one in found if _version(one) and one.key.split("/")[2:] == [MANIFEST_FILE]}


def _describe(content: bytes | Path) -> StoredFile:
    if isinstance(content, bytes):
        return StoredFile(hashlib.sha256(content).hexdigest(), len(content))
    return model_checks.describe_file(content)
