"""Contract of a model store, whatever its backend.

Versions appear atomically: a listed version is complete. Version numbers grow and are never reused, even after a version
was deleted or a publisher died. Only the gatekeeper writes the champion pointer, with an epoch that fences off a former
holder. Every method may block on the disk or the network: call it from an executor where an event loop must not wait.
Instances are thread-safe, and any number of processes may use one store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from games.core import Game
from zerofleet.contracts.manifests import Champion, Manifest, parse
from zerofleet.contracts.model_checks import MANIFEST_FILE
from zerofleet.contracts.naming import is_version
from zerofleet.errors import CorruptModel, InvalidRequest, ModelNotFound, StaleEpoch, VersionSkew

__all__ = [
    "MAX_FILE_BYTES",
    "MAX_HISTORY_BYTES",
    "MAX_MANIFEST_BYTES",
    "MAX_POINTER_BYTES",
    "ModelStore",
    "next_version",
    "no_such_version",
    "read_manifest",
    "require_file_names",
    "require_leader",
]

MAX_MANIFEST_BYTES = 8 << 20
MAX_POINTER_BYTES = 1 << 20  # champion.json, config.pbtxt and .last_version
MAX_HISTORY_BYTES = 64 << 20
LAST_VERSION = 10**9  # a version a second for thirty years; a larger number is not a publisher's
_SHOWN_CHARACTERS = 40
MAX_FILE_BYTES = 4 << 30  # below the 5 GiB limit of one request to an object store


class ModelStore(Protocol):
    """Store of model versions; opened by `open_model_store`."""

    @property
    def location(self) -> str:
        """Location as in a setting: a path or `s3://bucket/prefix`."""
        ...

    def models(self) -> list[str]:
        """Return the names of the stored models, sorted. Raises `Unavailable`."""
        ...

    def versions(self, model: str) -> list[int]:
        """Return the stored versions of a model, ascending; empty for an unknown model. They are not verified.

        Raises `Unavailable`.
        """
        ...

    def directory(self, model: str, version: int) -> Path:
        """Return a local directory with the files of a version; raises `ModelNotFound`."""
        ...

    def config(self, model: str) -> str | None:
        """Return the model's `config.pbtxt`, None if absent."""
        ...

    def manifest(self, model: str, version: int) -> Manifest:
        """Read a manifest, without checking the other files. Raises `ModelNotFound`, `CorruptModel`, `VersionSkew`."""
        ...

    def manifest_sha256(self, model: str, version: int) -> str:
        """Return the hash of a manifest, which determines the content of every file through the hashes in it."""
        ...

    def verify(self, model: str, version: int, *, game: Game | None = None) -> Manifest:
        """Check every file of a version against its manifest, and the manifest against `game` if given.

        Raises `ModelNotFound`; `CorruptModel` for missing, extra, changed, oversized, unreadable or non-finite content, for
        links, foreign pickles and invalid golden positions; `VersionSkew` for another schema, game, rules version or
        encoding; `Unavailable` when the store cannot be read. Does not load the model: see `check_golden`.
        """
        ...

    def publish(self, model: str, files: Mapping[str, bytes | Path], manifest: Manifest, *, config: str | None = None) -> int:
        """Store a new version and return its number; `manifest` needs neither version nor files.

        `config` becomes the model's `config.pbtxt`. Idempotent: if an intact version with the same weights exists, nothing is
        written and its number is returned; versions before `manifest.parent_version` are not compared if that one is stored.
        Raises `Unavailable` when the store is full, read-only or unreachable: then nothing becomes visible, and the call may
        be repeated.
        """
        ...

    def delete(self, model: str, version: int) -> None:
        """Delete a version; its number is not reused. The champion cannot be deleted (`InvalidRequest`)."""
        ...

    def champion(self, model: str) -> Champion | None:
        """Return the champion, None before the first.

        Raises `CorruptModel` when the pointer is unreadable, or holds another hash than the manifest of its version has.
        """
        ...

    def settled_champion(self, model: str) -> Champion | None:
        """Return the champion once it survives a power loss, to learn the outcome of a `write_champion` that failed.

        Raises as `champion`, and `Unavailable` while that cannot be achieved.
        """
        ...

    def history(self, model: str, *, whole: bool = False) -> list[Champion]:
        """Return every champion so far, oldest first; the last is the current one.

        A line of the history that cannot be read is skipped and logged; with `whole` it raises `CorruptModel`. Raises as
        `champion`.
        """
        ...

    def write_champion(self, model: str, version: int, *, epoch: int, reason: str, after: int | None = None) -> Champion:
        """Verify a version and make it the champion. For the gatekeeper only.

        `after` is the epoch of the champion known to the caller, 0 for none. Raises `StaleEpoch` when another champion is in
        place, or one with an epoch >= `epoch`; and the errors of `verify`. The old champion then stays. A crash leaves
        either the old pointer or the new one.
        """
        ...


def no_such_version(model: str, version: int, stored: Iterable[int]) -> ModelNotFound:
    """Return the error for a missing version, naming the newest stored ones."""
    latest = ", ".join(map(str, list(stored)[-5:])) or "none"
    return ModelNotFound(f"model {model} has no version {version}; the latest stored are: {latest}")


def require_file_names(files: Iterable[str]) -> None:
    """Raise `InvalidRequest` unless these file names are allowed in a version."""
    if unfit := [name for name in files if Path(name).name != name or name == MANIFEST_FILE or name.startswith(".")]:
        raise InvalidRequest(f"a model cannot hold files named {', '.join(unfit)}; give plain names, without {MANIFEST_FILE}")


def read_manifest(text: bytes, model: str, version: int, *, where: str) -> Manifest:
    """Parse the manifest of a version. Raises `CorruptModel`, or `VersionSkew` if it describes another version."""
    manifest = parse(Manifest, text, where=where)
    if (manifest.model, manifest.version) != (model, version):
        raise VersionSkew(f"{where} describes {manifest.model} version {manifest.version}, want {model} version {version}")
    return manifest


def require_leader(model: str, present: Champion | None, *, epoch: int, after: int | None) -> None:
    """Raise `StaleEpoch` unless the holder of `epoch`, who last saw the champion of epoch `after`, may replace `present`."""
    reached = present.epoch if present is not None else 0
    if present is not None and epoch <= reached:
        raise StaleEpoch(f"champion of {model} was written with epoch {reached}, refusing {epoch}: another holder leads")
    if after is not None and after != reached:
        raise StaleEpoch(
            f"champion of {model} has epoch {reached}, not {after} as this gatekeeper expects: another holder leads"
        )


def next_version(counter: bytes | None, stored: Iterable[int], *, where: str) -> int:
    """Return the number of a new version, from the content of `.last_version` (None if absent) and the stored versions.

    `where` is the directory of the model. Raises `CorruptModel` for a counter that is not a number, and for numbers that no
    publisher has given.
    """
    text = "" if counter is None else counter.decode(errors="replace").strip()
    if counter is not None and not is_version(text):
        raise CorruptModel(
            f"{where}/.last_version holds {text[:_SHOWN_CHARACTERS]!r}, want the highest version number ever given; write that"
            " number, or remove the file to continue after the highest stored version"
        )
    highest = max(stored, default=0)
    if highest >= LAST_VERSION:
        raise CorruptModel(
            f"{where}/{highest} was not published by Zerofleet, whose numbers end at {LAST_VERSION}; move it away"
        )
    if counter is not None and int(text) >= LAST_VERSION:
        raise CorruptModel(
            f"{where}/.last_version holds {text}, and numbers end at {LAST_VERSION}; write the highest number ever given"
        )
    return max(highest, int(text or 0)) + 1
