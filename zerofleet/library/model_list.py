"""Models of a run as pages show them: lineage, verdict and match of each version. Read from files, with no service needed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from zerofleet.contracts.manifests import Champion, Manifest
from zerofleet.contracts.plain_files import read_plain
from zerofleet.contracts.promotions import CandidateStatus, MatchReport
from zerofleet.errors import CorruptModel
from zerofleet.service.settings import open_run_store
from zerofleet.storage.files import whole_lines
from zerofleet.storage.run_paths import RunPaths

__all__ = ["GateMatch", "ModelDetail", "ModelEntry", "ModelList", "StoredFile", "Verdict", "list_models", "model_detail"]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class GateMatch(_Value):
    """Match of a candidate against the champion of its time, from the candidate's point of view."""

    champion_version: int
    wins: int
    draws: int
    losses: int
    pentanomial: tuple[int, int, int, int, int]
    """Number of game pairs by the candidate's score in half points: index 0 = no point, 4 = two wins."""
    share: float
    """Share of points in [0, 1]."""
    share_low: float
    """Lower end of its 95 % interval."""
    share_high: float
    """Upper end of its 95 % interval."""
    log_likelihood_ratio: float
    """Value of the sequential test; 0 when another rule decides."""


class Verdict(_Value):
    """Status of a candidate in the gatekeeper's journal."""

    status: str
    reason: str
    match: GateMatch | None


class ModelEntry(_Value):
    """Version of a list."""

    version: int
    status: str
    """champion, former champion, the gatekeeper's status, corrupt, or empty for a version that was never submitted."""
    parent_version: int | None
    train_steps: int
    games_seen: int
    created_at: datetime | None
    """Time of the export; None for a corrupt version."""
    size_bytes: int
    match: GateMatch | None
    reason: str
    """Reason of the verdict or of the last promotion, or the fault."""


class ModelList(_Value):
    """Versions of a run, newest first."""

    model: str
    models: tuple[ModelEntry, ...]


class StoredFile(_Value):
    """File of a version."""

    name: str
    size_bytes: int
    sha256: str


class ModelDetail(ModelEntry):
    """Version with its manifest."""

    parameters: dict[str, str]
    """Parameters of the game."""
    network: dict[str, str]
    """Settings of the network, as text."""
    files: tuple[StoredFile, ...]
    promoted_at: tuple[datetime, ...]
    """Times at which it became champion."""


def list_models(paths: RunPaths, model: str) -> ModelList:
    """Return a row for each stored version, newest first. Raises `RunDirectoryError`, `OSError`."""
    store = open_run_store(paths)
    verdicts, history = read_verdicts(paths), store.history(model, whole=True)
    rows = []
    for version in reversed(store.versions(model)):
        try:
            rows.append(_entry(store.manifest(model, version), verdicts, history))
        except CorruptModel as error:
            rows.append(_corrupt(version, str(error)))
    return ModelList(model=model, models=tuple(rows))


def model_detail(paths: RunPaths, model: str, version: int) -> ModelDetail:
    """Return a version with its manifest. Raises `ModelNotFound`, `CorruptModel`."""
    store = open_run_store(paths)
    manifest, history = store.manifest(model, version), store.history(model, whole=True)
    entry = _entry(manifest, read_verdicts(paths), history)
    return ModelDetail(
        **dict(entry),
        parameters=dict(manifest.parameters),
        network={name: _text(value) for name, value in manifest.network.items()},
        files=tuple(StoredFile(name=name, size_bytes=one.size, sha256=one.sha256) for name, one in manifest.files.items()),
        promoted_at=tuple(_time(one.promoted_at_ms) for one in history if one.version == version),
    )


def read_verdicts(paths: RunPaths) -> dict[int, Verdict]:
    """Return the last status of every candidate in the gatekeeper's journal, by version; none without a journal.

    Lines other than those of candidates are passed over, and so is a partial last line. Raises `OSError`.
    """
    try:
        content = read_plain(paths.gatekeeper / "journal.jsonl")
    except FileNotFoundError:
        return {}
    found: dict[int, Verdict] = {}
    for line in whole_lines(content).splitlines():
        if line.startswith((b'{"event":"status"', b'{"event":"submitted"')):
            event = json.loads(line)
            known = Verdict(status=CandidateStatus.QUEUED.value, reason="", match=None)
            found[event["version"]] = known if event["event"] == "submitted" else _verdict(event)
    return found


_REPORT: TypeAdapter[MatchReport] = TypeAdapter(MatchReport)


def _verdict(event: Mapping[str, object]) -> Verdict:
    try:
        report = None if event.get("report") is None else _REPORT.validate_python(event["report"])
    except ValidationError:
        report = None
    match = None if report is None else GateMatch(**{name: getattr(report, name) for name in GateMatch.model_fields})
    return Verdict(status=str(event["status"]), reason=str(event.get("reason", "")), match=match)


def _entry(manifest: Manifest, verdicts: Mapping[int, Verdict], history: list[Champion]) -> ModelEntry:
    version, verdict = manifest.version, verdicts.get(manifest.version)
    past = next((one for one in reversed(history) if one.version == version), None)
    status = "" if verdict is None else verdict.status
    if past is not None:
        status = "champion" if past is history[-1] else "former champion"
    return ModelEntry(
        version=version,
        status=status,
        parent_version=manifest.parent_version or None,
        train_steps=manifest.train_steps,
        games_seen=manifest.games_seen,
        created_at=_time(manifest.created_at_ms),
        size_bytes=sum(one.size for one in manifest.files.values()),
        match=None if verdict is None else verdict.match,
        reason=(verdict.reason if verdict is not None else "") or (past.reason if past is not None else ""),
    )


def _corrupt(version: int, fault: str) -> ModelEntry:
    return ModelEntry(
        version=version,
        status="corrupt",
        parent_version=None,
        train_steps=0,
        games_seen=0,
        created_at=None,
        size_bytes=0,
        match=None,
        reason=fault,
    )


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _text(value: object) -> str:
    return " x ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
