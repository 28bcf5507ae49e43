"""Models of a run as commands and pages show them: lineage, status, match and rating of each version.

Verdicts and ratings come from the gatekeeper's journal, by the code that the gatekeeper itself uses: they are the same while
the run goes on and after it has ended, with no service needed. A remote gatekeeper, whose files are away, reports a part of
the same values.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from zerofleet.contracts.lineage import was_self_tested
from zerofleet.contracts.manifests import Champion, Manifest
from zerofleet.contracts.promotions import Candidate, CandidateStatus, MatchReport, Rung
from zerofleet.errors import CorruptModel, ModelNotFound
from zerofleet.library.times import time_of
from zerofleet.library.values import Value
from zerofleet.service.settings import open_run_store
from zerofleet.storage.model_store import ModelStore
from zerofleet.storage.run_paths import RunPaths

__all__ = [
    "ALL_MODELS",
    "KnownModel",
    "ModelDetail",
    "ModelEntry",
    "ModelList",
    "ModelQuery",
    "StoredFile",
    "known_models",
    "list_models",
    "model_detail",
    "stored_entries",
]

MOST_ANCESTORS = 8

_MEASURED = (CandidateStatus.TRIAL, CandidateStatus.UNPROVEN, CandidateStatus.WEAKER)
"""Statuses of champions, present and former, that were promoted before they were measured."""


class KnownModel(Value):
    """Version as a gatekeeper reports it."""

    version: int
    status: str
    """champion, former champion, the gatekeeper's status, corrupt, or empty for a version that was never submitted; in mode
    watch a champion's measurement follows, such as `champion, trial`."""
    is_champion: bool
    was_champion: bool
    """Whether it is or was champion."""
    elo: float | None
    """Rating with `random` at 0; None without one, or while it is not anchored by games against the rungs."""
    elo_low: float | None
    """Lower end of the 95 % interval."""
    elo_high: float | None
    """Upper end of the 95 % interval."""
    rated_games: int
    """Games that count for the rating; some, but no rating: it is not anchored, as none was against a rung."""
    match: MatchReport | None
    """Match against the champion of its time, from its point of view."""
    reason: str
    """Reason of the verdict or of the last promotion, or the fault."""
    note: str
    """Score of the match against the champion of its time; without a match the reason."""


class ModelEntry(KnownModel):
    """Stored version of a run; a corrupt one has no manifest, and zeros in its place."""

    parent_version: int | None = None
    """Version from which it was trained."""
    train_steps: int = 0
    games_seen: int = 0
    created_at: datetime | None = None
    """Time of the export; None for a corrupt version."""
    size_bytes: int = 0


class ModelList(Value):
    """Stored versions of a run, newest first."""

    model: str
    total: int
    """Number of stored versions, of champions present and former where these alone are listed."""
    next_before: int | None
    """Version with which a query for older ones goes on; None where none is left."""
    champion: int | None
    """Present champion, listed or not; None before the first promotion."""
    versions: tuple[ModelEntry, ...]


@dataclass(frozen=True, slots=True)
class ModelQuery:
    """Wanted versions, newest first."""

    limit: int | None = None
    """Maximum number of versions; None for all."""
    before: int | None = None
    """Version: only older ones are listed."""
    has_champions_only: bool = False
    """Whether versions that were never champion are left out."""


ALL_MODELS = ModelQuery()


class StoredFile(Value):
    """File of a version."""

    name: str
    size_bytes: int
    sha256: str


class ModelDetail(ModelEntry):
    """Version with its manifest: the object that `zerofleet models show --json` prints."""

    model: str
    """Name of the model: the game with the parameters that matter to a network."""
    game: str
    rules_version: int
    encoder: str
    """Fingerprint of the encoding of positions."""
    planes: tuple[int, int, int]
    """Channels, rows and columns of an encoded position."""
    heads: tuple[str, ...]
    """Outputs of the network."""
    parameters: dict[str, str]
    """Parameters of the game."""
    network: dict[str, str]
    """Settings of the network, as text."""
    files: tuple[StoredFile, ...]
    promoted_at: tuple[datetime, ...]
    """Times at which it became champion."""
    is_self_tested: bool
    """Whether it was champion after an inference server had loaded it; a promotion of another version needs such a server, or
    the accepted risk."""
    ancestors: tuple[int, ...]
    """Versions from which it was trained, the parent first: at most `MOST_ANCESTORS`, up to the first that is not stored."""
    match_id: str = ""
    """Id of its newest match, for its games and the path of the test; empty where the journal does not hold them."""


def list_models(
    paths: RunPaths, model: str, candidates: Mapping[int, Candidate], ladder: Sequence[Rung], query: ModelQuery = ALL_MODELS
) -> ModelList:
    """Return a row for each wanted version, with the gate's candidates and ratings. Raises `OSError`."""
    store = open_run_store(paths)
    stored, promotions = store.versions(model), _Promotions(store.history(model))
    if query.has_champions_only:
        stored = [version for version in stored if version in promotions.latest]
    older = stored if query.before is None else stored[: bisect_left(stored, query.before)]
    shown = older if query.limit is None else older[max(0, len(older) - query.limit) :]
    rows = _entries(store, model, candidates, _by_name(ladder), promotions, reversed(shown))
    next_before = shown[0] if len(shown) < len(older) else None
    champion = None if promotions.champion is None else promotions.champion.version
    return ModelList(model=model, total=len(stored), next_before=next_before, champion=champion, versions=tuple(rows))


def stored_entries(
    paths: RunPaths, model: str, candidates: Mapping[int, Candidate], ladder: Sequence[Rung], versions: Collection[int]
) -> list[ModelEntry]:
    """Return the rows of those of `versions` that are stored, ascending. Raises `OSError`."""
    store = open_run_store(paths)
    wanted = [version for version in store.versions(model) if version in versions]
    return list(_entries(store, model, candidates, _by_name(ladder), _Promotions(store.history(model)), wanted))


def model_detail(
    paths: RunPaths, model: str, version: int, candidates: Mapping[int, Candidate], ladder: Sequence[Rung]
) -> ModelDetail:
    """Return a version with its manifest. Raises `ModelNotFound`, `CorruptModel`."""
    store = open_run_store(paths)
    manifest, history = store.manifest(model, version), store.history(model)
    known = _known(version, candidates.get(version), _by_name(ladder), _Promotions(history))
    promoted = (time_of(one.promoted_at_ms) for one in history if one.version == version)
    return ModelDetail(
        **dict(_entry(known, manifest)),
        model=manifest.model,
        game=manifest.game,
        rules_version=manifest.rules_version,
        encoder=manifest.encoder,
        planes=manifest.planes,
        heads=manifest.heads,
        parameters=dict(manifest.parameters),
        network={name: _text(value) for name, value in manifest.network.items()},
        files=tuple(StoredFile(name=name, size_bytes=one.size, sha256=one.sha256) for name, one in manifest.files.items()),
        promoted_at=tuple(time for time in promoted if time is not None),
        is_self_tested=was_self_tested(history, version, store.manifest_sha256(model, version)),
        ancestors=tuple(itertools.islice(_ancestors(store, model, manifest), MOST_ANCESTORS)),
    )


def known_models(candidates: Iterable[Candidate], champion: Champion | None, ladder: Iterable[Rung]) -> list[KnownModel]:
    """Return the versions that a gatekeeper reports, ascending; former champions have their status as candidates."""
    by_version, rungs = {one.version: one for one in candidates}, _by_name(ladder)
    history = [champion] if champion is not None else []
    versions, promotions = sorted({*by_version, *(one.version for one in history)}), _Promotions(history)
    return [_known(version, by_version.get(version), rungs, promotions) for version in versions]


class _Promotions:
    """Promotions of a run."""

    def __init__(self, history: Sequence[Champion]) -> None:
        self.latest = {one.version: one for one in history}
        """Latest promotion by version."""
        self.champion = history[-1] if history else None


def _entries(
    store: ModelStore,
    model: str,
    candidates: Mapping[int, Candidate],
    rungs: Mapping[str, Rung],
    promotions: _Promotions,
    versions: Iterable[int],
) -> Iterator[ModelEntry]:
    for version in versions:
        known = _known(version, candidates.get(version), rungs, promotions)
        try:
            yield _entry(known, store.manifest(model, version))
        except CorruptModel as error:
            yield ModelEntry(**(dict(known) | {"status": "corrupt", "reason": str(error), "note": str(error)}))


def _ancestors(store: ModelStore, model: str, manifest: Manifest) -> Iterator[int]:
    """Yield the versions from which one was trained, the parent first, up to the first that is not stored or damaged."""
    with suppress(ModelNotFound, CorruptModel):
        while 0 < manifest.parent_version < manifest.version:
            manifest = store.manifest(model, manifest.parent_version)
            yield manifest.version


def _known(version: int, candidate: Candidate | None, rungs: Mapping[str, Rung], promotions: _Promotions) -> KnownModel:
    past = promotions.latest.get(version)
    status = "" if candidate is None else candidate.status.value
    if past is not None:
        status = "champion" if past is promotions.champion else "former champion"
        if candidate is not None and candidate.status in _MEASURED:
            status = f"{status}, {candidate.status.value}"
    rung = rungs.get(f"model:{version}")
    elo, low, high = (rung.elo, rung.elo_low, rung.elo_high) if rung is not None and rung.anchored else (None, None, None)
    match = None if candidate is None else candidate.match
    reason = (candidate.reason if candidate is not None else "") or (past.reason if past is not None else "")
    return KnownModel(
        version=version,
        status=status,
        is_champion=past is not None and past is promotions.champion,
        was_champion=past is not None,
        elo=elo,
        elo_low=low,
        elo_high=high,
        rated_games=0 if rung is None else rung.games,
        match=match,
        reason=reason,
        note=reason if match is None else f"+{match.wins} ={match.draws} -{match.losses} against {match.champion_version}",
    )


def _entry(known: KnownModel, manifest: Manifest) -> ModelEntry:
    return ModelEntry(
        **dict(known),
        parent_version=manifest.parent_version or None,
        train_steps=manifest.train_steps,
        games_seen=manifest.games_seen,
        created_at=time_of(manifest.created_at_ms),
        size_bytes=sum(one.size for one in manifest.files.values()),
    )


def _by_name(ladder: Iterable[Rung]) -> dict[str, Rung]:
    return {rung.name: rung for rung in ladder}


def _text(value: object) -> str:
    return " x ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
