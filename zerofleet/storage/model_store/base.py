"""What a model store promises, wherever it keeps its models.

Versions of models appear whole or not at all: what can be listed is complete. Numbers grow and are never given twice, not
even after a version was deleted or a publisher died. The champion pointer is written by the gatekeeper alone, with an
epoch that fences off a former one. Every method may block on the disk or the network: call them from an executor where a
loop must not wait. Instances may be shared by threads, and any number of processes may use one store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from games.core import Game
from zerofleet.contracts.manifests import Champion, Manifest, parse
from zerofleet.contracts.model_checks import MANIFEST_FILE
from zerofleet.errors import InvalidRequest, ModelNotFound, StaleEpoch, VersionSkew

__all__ = [
    "MAX_FILE_BYTES",
    "MAX_MANIFEST_BYTES",
    "ModelStore",
    "no_such_version",
    "read_manifest",
    "require_file_names",
    "require_leader",
    "with_present",
]

MAX_MANIFEST_BYTES = 8 << 20
MAX_FILE_BYTES = 4 << 30  # also below the 5 GiB that an object store takes in one request


class ModelStore(Protocol):
    """A place for models; `open_model_store` opens one."""

    @property
    def location(self) -> str:
        """Where the models lie, as a setting says it: a path or `s3://bucket/prefix`."""
        ...

    def models(self) -> list[str]:
        """Return the names of the stored models, sorted."""
        ...

    def versions(self, model: str) -> list[int]:
        """Return the stored versions of a model, ascending; empty for an unknown one. They may still be corrupt."""
        ...

    def directory(self, model: str, version: int) -> Path:
        """Return a local directory with the files of a version; raises `ModelNotFound`."""
        ...

    def config(self, model: str) -> str | None:
        """Return the model's `config.pbtxt`, None when there is none."""
        ...

    def manifest(self, model: str, version: int) -> Manifest:
        """Read a manifest, without looking at the other files. Raises `ModelNotFound`, `CorruptModel`, `VersionSkew`."""
        ...

    def manifest_sha256(self, model: str, version: int) -> str:
        """Return the hash of a manifest, which by the hashes in it names the content of every file."""
        ...

    def verify(self, model: str, version: int, *, game: Game | None = None) -> Manifest:
        """Check every file of a version against its manifest, and that it was made for `game` where one is given.

        Raises `ModelNotFound`; `CorruptModel` for missing, extra, changed, oversized, unreadable or non-finite content, for
        links, foreign pickles and golden positions that do not fit; `VersionSkew` for another schema, game, rules version or
        encoding; `Unavailable` when the store cannot be read. Does not load the model: see `check_golden`.
        """
        ...

    def publish(self, model: str, files: Mapping[str, bytes | Path], manifest: Manifest, *, config: str | None = None) -> int:
        """Store a new version and return its number; `manifest` needs neither version nor files.

        `config` becomes the model's `config.pbtxt`. When the store already holds an intact version with the same weights,
        nothing is written and that version is returned. Raises `Unavailable` when the store refuses (full, read-only, not
        reached): then nothing is visible, and the call may be repeated.
        """
        ...

    def delete(self, model: str, version: int) -> None:
        """Remove a version; its number is not given again. The champion cannot be removed (`InvalidRequest`)."""
        ...

    def champion(self, model: str) -> Champion | None:
        """Return the champion, or `None` while there is none. Raises `CorruptModel` when the pointer cannot be read."""
        ...

    def history(self, model: str) -> list[Champion]:
        """Return every champion so far, oldest first; the last one is the present one."""
        ...

    def write_champion(self, model: str, version: int, *, epoch: int, reason: str, after: int | None = None) -> Champion:
        """Point to a new champion, after verifying it. For the gatekeeper alone.

        `after` is the epoch of the champion that the caller knows, 0 for none. Raises `StaleEpoch` when another one is in
        place, or one with `epoch` or a greater one; and what `verify` raises. Then the old champion stays. A crash leaves
        the old pointer or the new one.
        """
        ...


def no_such_version(model: str, version: int, stored: Iterable[int]) -> ModelNotFound:
    """Return the error that names the versions there are."""
    latest = ", ".join(map(str, list(stored)[-5:])) or "none"
    return ModelNotFound(f"model {model} has no version {version}; the latest stored are: {latest}")


def require_file_names(files: Iterable[str]) -> None:
    """Raise `InvalidRequest` unless a version can hold files of these names."""
    if unfit := [name for name in files if Path(name).name != name or name == MANIFEST_FILE or name.startswith(".")]:
        raise InvalidRequest(f"a model cannot hold files named {', '.join(unfit)}; give plain names, without {MANIFEST_FILE}")


def read_manifest(text: bytes, model: str, version: int, *, where: str) -> Manifest:
    """Read the manifest of that version. Raises `CorruptModel`, or `VersionSkew` when it is another's."""
    manifest = parse(Manifest, text, where=where)
    if (manifest.model, manifest.version) != (model, version):
        raise VersionSkew(f"{where} describes {manifest.model} version {manifest.version}, want {model} version {version}")
    return manifest


def require_leader(model: str, present: Champion | None, *, epoch: int, after: int | None) -> None:
    """Raise `StaleEpoch` unless whoever holds `epoch`, and knows the champion of epoch `after`, may replace `present`."""
    reached = present.epoch if present is not None else 0
    if present is not None and epoch <= reached:
        raise StaleEpoch(f"champion of {model} was written with epoch {reached}, refusing {epoch}: another holder leads")
    if after is not None and after != reached:
        raise StaleEpoch(
            f"champion of {model} has epoch {reached}, not {after} as this gatekeeper knows it: another holder leads"
        )


def with_present(history: list[Champion], present: Champion | None) -> list[Champion]:
    """Return the history with the present champion at its end: its line is written after the pointer, and may be missing."""
    if present is not None and (not history or history[-1].epoch < present.epoch):
        return [*history, present]
    return history
