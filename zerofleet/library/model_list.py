"""Models of a run as pages show them: lineage, verdict and match of each version. Read from files, with no service needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict

from zerofleet.contracts.manifests import Champion, Manifest
from zerofleet.contracts.promotions import Candidate, Rung
from zerofleet.errors import CorruptModel
from zerofleet.service.settings import open_run_store
from zerofleet.storage.run_paths import RunPaths

__all__ = ["GateMatch", "ModelDetail", "ModelEntry", "ModelList", "StoredFile", "list_models", "model_detail"]


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
    elo: float | None
    """Rating with `random` at 0; None without one, or while it is not anchored by games against the rungs."""
    elo_low: float | None
    """Lower end of the 95 % interval."""
    elo_high: float | None
    """Upper end of the 95 % interval."""
    rated_games: int
    """Number of games that count for the rating."""
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


def list_models(paths: RunPaths, model: str, candidates: Mapping[int, Candidate], ladder: Sequence[Rung]) -> ModelList:
    """Return a row for each stored version, newest first, with the gate's candidates and ratings. Raises `OSError`."""
    store = open_run_store(paths)
    history, rungs = store.history(model, whole=True), {rung.name: rung for rung in ladder}
    rows = []
    for version in reversed(store.versions(model)):
        try:
            rows.append(_entry(store.manifest(model, version), candidates.get(version), rungs, history))
        except CorruptModel as error:
            rows.append(_corrupt(version, str(error)))
    return ModelList(model=model, models=tuple(rows))


def model_detail(
    paths: RunPaths, model: str, version: int, candidates: Mapping[int, Candidate], ladder: Sequence[Rung]
) -> ModelDetail:
    """Return a version with its manifest. Raises `ModelNotFound`, `CorruptModel`."""
    store = open_run_store(paths)
    manifest, history = store.manifest(model, version), store.history(model, whole=True)
    entry = _entry(manifest, candidates.get(version), {rung.name: rung for rung in ladder}, history)
    return ModelDetail(
        **dict(entry),
        parameters=dict(manifest.parameters),
        network={name: _text(value) for name, value in manifest.network.items()},
        files=tuple(StoredFile(name=name, size_bytes=one.size, sha256=one.sha256) for name, one in manifest.files.items()),
        promoted_at=tuple(_time(one.promoted_at_ms) for one in history if one.version == version),
    )


def _entry(
    manifest: Manifest, candidate: Candidate | None, rungs: Mapping[str, Rung], history: Sequence[Champion]
) -> ModelEntry:
    version = manifest.version
    past = next((one for one in reversed(history) if one.version == version), None)
    status = "" if candidate is None else candidate.status.value
    if past is not None:
        status = "champion" if past is history[-1] else "former champion"
    rung = rungs.get(f"model:{version}")
    elo, low, high = (rung.elo, rung.elo_low, rung.elo_high) if rung is not None and rung.anchored else (None, None, None)
    report = None if candidate is None else candidate.match
    return ModelEntry(
        version=version,
        status=status,
        parent_version=manifest.parent_version or None,
        train_steps=manifest.train_steps,
        games_seen=manifest.games_seen,
        created_at=_time(manifest.created_at_ms),
        size_bytes=sum(one.size for one in manifest.files.values()),
        elo=elo,
        elo_low=low,
        elo_high=high,
        rated_games=0 if rung is None else rung.games,
        match=None if report is None else GateMatch(**{name: getattr(report, name) for name in GateMatch.model_fields}),
        reason=(candidate.reason if candidate is not None else "") or (past.reason if past is not None else ""),
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
        elo=None,
        elo_low=None,
        elo_high=None,
        rated_games=0,
        match=None,
        reason=fault,
    )


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _text(value: object) -> str:
    return " x ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
