"""Comparison of the champion pointer with the manifest that it names: a damaged pointer makes no other version champion.

The pointer holds the hash of the manifest of its version. A pointer is compared when it is first seen, so that a reader who
asks for the champion again and again reads the manifest only after a change.
"""

from __future__ import annotations

from collections.abc import Callable

from zerofleet.contracts.manifests import Champion, parse
from zerofleet.errors import CorruptModel, ModelNotFound, VersionSkew

__all__ = ["POINTER_REMEDY", "PointerCheck", "read_pointer"]

POINTER_REMEDY = "restore it, or write the last line of champion_history.jsonl into it"


def read_pointer(text: bytes, *, where: str) -> Champion:
    """Parse the pointer read at `where`. Raises as `parse`, with the remedy for a damaged one."""
    try:
        return parse(Champion, text, where=where)
    except VersionSkew:
        raise
    except CorruptModel as error:
        raise CorruptModel(f"{error}; {POINTER_REMEDY}") from error


class PointerCheck:
    """The pointers that one instance of a store has compared, one for each model. Thread-safe."""

    def __init__(self) -> None:
        self._compared: dict[str, Champion] = {}

    def require_sound(self, model: str, champion: Champion, manifest_sha256: Callable[[str, int], str], *, where: str) -> None:
        """Raise `CorruptModel` unless `champion`, read at `where`, names `model` and the manifest of its version.

        `manifest_sha256` is that of the store. A version that is absent or whose manifest cannot be read is left to its
        loader, which reports it. Raises `Unavailable` when the store cannot be read.
        """
        if self._compared.get(model) == champion:
            return
        if champion.model != model:
            raise CorruptModel(f"{where} names a champion of {champion.model[:40]!r}, want {model}; {POINTER_REMEDY}")
        try:
            found = manifest_sha256(model, champion.version)
        except (CorruptModel, ModelNotFound, VersionSkew):
            found = champion.manifest_sha256
        if found != champion.manifest_sha256:
            raise CorruptModel(
                f"{where} names version {champion.version} with another manifest (sha256 {champion.manifest_sha256[:12]}) than"
                f" the stored one ({found[:12]}): one of both was damaged; {POINTER_REMEDY}; if the line names the same"
                " version and hash, restore the manifest"
            )
        self._compared[model] = champion
