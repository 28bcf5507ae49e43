"""Results of stages in a folder: one JSON file each, published when the stage is complete."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zerofleet.errors import InvalidRequest
from zerofleet.presets.theses.preset_values import changed_value, preset_values
from zerofleet.presets.theses.stages import Stage, fingerprint
from zerofleet.storage.files import atomic_publish
from zerofleet.strength.behaviour.tables import read_stored
from zerofleet.strength.claims.tallies import Tally
from zerofleet.strength.claims.verdicts import DIVERGED

__all__ = ["StageResults"]

_FORMAT = 1


class StageResults:
    """Results of the stages of one reproduction."""

    def __init__(self, folder: Path) -> None:
        """Open or create the folder."""
        self.folder = folder
        self._settings = folder / "settings.json"
        self._results = folder / "results"
        self._results.mkdir(parents=True, exist_ok=True)

    def was_begun(self, stage: Stage) -> bool:
        """Return whether an earlier call began the training of a stage, which then continues."""
        return (self.folder / "networks" / stage.id).exists()

    def read(self, stage: Stage) -> dict[str, Any] | None:
        """Return the result of a stage, None without one.

        Raises `InvalidRequest` if the stored one is damaged, or was found with other settings.
        """
        path = self._path(stage)
        if not path.exists():
            return None
        found = _read(path)
        _require_same(found if found.get("format") == _FORMAT else {}, stage, where=f"{path} was found")
        return found

    def tallies(self, stage: Stage) -> list[Tally]:
        """Return the tallies of a stage; none if it is not complete. Raises the errors of `read`."""
        found = self.read(stage)
        try:
            tallies = [] if found is None else [Tally.read(fields) for fields in found["tallies"]]
            for tally in tallies:
                _check_tables(tally.tables)
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(self._path(stage), error) from error
        return tallies

    def tables(self, stage: Stage) -> list[dict[str, Any]]:
        """Return the tables of behaviour of a stage's self-play, as `as_stored` writes them; none if it has none or is not
        complete. Raises the errors of `read`."""
        found: list[dict[str, Any]] = (self.read(stage) or {}).get("tables", [])
        try:
            _check_tables(found)
        except (TypeError, ValueError) as error:
            raise _damaged(self._path(stage), error) from error
        return found

    def diverged(self, stage: Stage) -> str | None:
        """Return the reason for which a complete stage has no trained network, None if it has one or is not complete."""
        reason: str | None = (self.read(stage) or {}).get(DIVERGED)
        return reason

    def require_thesis(self, name: str) -> None:
        """Raise `InvalidRequest` if the folder has the report of another thesis, which this one's would replace."""
        try:
            held = _read(self.folder / "report.json").get("thesis")
        except (FileNotFoundError, InvalidRequest):  # a damaged report is written anew
            return
        if held != name:
            raise InvalidRequest(f"{self.folder} holds the reproduction of {held}; give another folder with --dir")

    def require_settings(self, stages: list[Stage]) -> None:
        """Raise `InvalidRequest` if a stage has begun with other settings than now."""
        known = self._known()
        for stage in stages:
            if (kept := known.get(stage.id)) is None:
                continue
            if isinstance(kept, str):  # by a version that kept no values of the preset
                kept = {"fingerprint": kept}
            _require_same(kept, stage, where=f"{self.folder} holds stage {stage.id}")

    def begin(self, stage: Stage) -> None:
        """Remember the settings with which a stage begins."""
        atomic_publish(self._settings, json.dumps({stage.id: _identity(stage), **self._known()}, indent=1))

    def _known(self) -> dict[str, Any]:
        return _read(self._settings) if self._settings.exists() else {}

    def keep(self, stage: Stage, result: dict[str, Any], *, seconds: float) -> None:
        """Store the result of a completed stage."""
        about = {"format": _FORMAT, **_identity(stage), "seconds": round(seconds, 1)}
        settings = stage.model_dump(mode="json")
        atomic_publish(self._path(stage), json.dumps({**about, "stage": settings, **result}, indent=1, allow_nan=False))

    def _path(self, stage: Stage) -> Path:
        return self._results / f"{stage.id}.json"


def _identity(stage: Stage) -> dict[str, Any]:
    """Return the hash of a stage and the values of its preset."""
    values = preset_values(stage)
    return {"fingerprint": fingerprint(stage)} | ({"preset": values} if values else {})


def _require_same(kept: Any, stage: Stage, *, where: str) -> None:
    """Raise `InvalidRequest` unless a stage has the kept identity, in which earlier versions left out the preset."""
    if not isinstance(kept, dict) or kept.get("fingerprint") != fingerprint(stage):
        difference = "those of the stage itself"
    else:
        values = kept.get("preset", {})
        difference = changed_value(stage, values) if isinstance(values, dict) else "its preset is damaged"
    if difference:
        raise InvalidRequest(
            f"{where} with other settings than this version or command has ({difference}); give another folder with --dir"
        )


def _check_tables(tables: Sequence[Mapping[str, Any]]) -> None:
    """Raise `TypeError` or `ValueError` unless these are tables of behaviour."""
    for table in tables:
        read_stored(table)


def _read(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; raises `InvalidRequest` for anything else."""
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise _damaged(path, error) from error
    if not isinstance(found, dict):
        raise _damaged(path, f"it holds a {type(found).__name__}")
    return found


def _damaged(path: Path, reason: object) -> InvalidRequest:
    return InvalidRequest(f"{path} is damaged ({str(reason)[:200]}); remove it to run its stage again")
