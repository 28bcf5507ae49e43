"""Rows of `zerofleet models`: versions of a run from its files, or of a remote gatekeeper from its replies.

Verdicts and ratings of a run come from the gatekeeper's journal, by the code that the gatekeeper itself uses: they are the
same while the run goes on and after it has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from games.core import make
from zerofleet.cli import screen
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.promotions import Candidate, CandidateStatus, Champion, Rung
from zerofleet.errors import CorruptModel
from zerofleet.service.settings import open_run_store
from zerofleet.storage.run_paths import RunPaths
from zerofleet.storage.runs import read_header
from zerofleet.strength.gate_record import read_record
from zerofleet.strength.ladders.standings import standings

__all__ = ["KnownModel", "ModelRow", "RunModels", "known_models", "rating_cells"]

_MEASURED = (CandidateStatus.TRIAL, CandidateStatus.UNPROVEN, CandidateStatus.WEAKER)
"""Statuses of champions, present and former, that were promoted before they were measured."""


@dataclass(frozen=True, slots=True)
class KnownModel:
    """Version as reported by a gatekeeper."""

    version: int
    status: str
    """champion, former champion, the gatekeeper's status, or corrupt; in mode watch a champion's measurement follows."""
    elo: float | None
    """Rating, with `random` at 0; None for a version without a rating, or one that is not anchored."""
    elo_low: float | None
    elo_high: float | None
    """The 95 % interval of the rating."""
    rated_games: int
    """Games that count for the rating; some, but no rating: it is not anchored, as none was against a rung."""
    note: str
    """Match against the champion of its time, or the fault."""


@dataclass(frozen=True, slots=True)
class ModelRow(KnownModel):
    """Stored version of a run."""

    parent_version: int = 0
    train_steps: int = 0
    games_seen: int = 0
    created_at: str = ""
    """Time of the export, ISO 8601 with zone; empty for a corrupt version."""
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RunModels:
    """Versions of a run, read from its model store and its gatekeeper's journal."""

    model: str
    manifests: Mapping[int, Manifest | str]
    """Manifest of every stored version by number, ascending; the fault of an unreadable one."""
    candidates: Mapping[int, Candidate]
    rungs: Mapping[str, Rung]
    history: Sequence[Champion] = field(default=())

    @classmethod
    def read(cls, paths: RunPaths) -> RunModels:
        """Read the files of a run, which may be in progress. Raises `RunDirectoryError` for a damaged header or journal."""
        header = read_header(paths.root)
        game = make(header.game, **header.parameters)  # parameters that change the scores count for the rated games
        store, model = open_run_store(paths), model_name(game)
        manifests: dict[int, Manifest | str] = {}
        for version in store.versions(model):
            try:
                manifests[version] = store.manifest(model, version)
            except CorruptModel as error:
                manifests[version] = str(error)
        record, history = read_record(paths.gatekeeper, model, game), store.history(model)
        return cls(model, manifests, record.candidates, {rung.name: rung for rung in standings(record, history)}, history)

    def rows(self) -> list[ModelRow]:
        """Return a row for each stored version, ascending."""
        return [self.row(version) for version in self.manifests]

    def row(self, version: int) -> ModelRow:
        """Return the row of a stored version."""
        known = _known(version, self.candidates, self.rungs, self.history)
        found = self.manifests[version]
        if isinstance(found, str):
            return ModelRow(version, "corrupt", known.elo, known.elo_low, known.elo_high, known.rated_games, found)
        return ModelRow(
            *(version, known.status, known.elo, known.elo_low, known.elo_high, known.rated_games, known.note),
            parent_version=found.parent_version,
            train_steps=found.train_steps,
            games_seen=found.games_seen,
            created_at=screen.timestamp(found.created_at_ms),
            size_bytes=sum(stored.size for stored in found.files.values()),
        )


def known_models(candidates: Iterable[Candidate], champion: Champion | None, ladder: Iterable[Rung]) -> list[KnownModel]:
    """Return the versions that a gatekeeper reports, ascending; former champions have their status as candidates."""
    by_version, rungs = {one.version: one for one in candidates}, {rung.name: rung for rung in ladder}
    history = [champion] if champion is not None else []
    versions = sorted({*by_version, *(one.version for one in history)})
    return [_known(version, by_version, rungs, history) for version in versions]


def rating_cells(known: KnownModel) -> tuple[str, str]:
    """Return the cells of rating and interval: `not anchored` for games without a rating, empty without games."""
    if known.elo is None or known.elo_low is None or known.elo_high is None:
        return ("not anchored" if known.rated_games else "", "")
    return f"{known.elo:.0f}", f"{known.elo_low:.0f} to {known.elo_high:.0f}"


def _known(
    version: int, candidates: Mapping[int, Candidate], rungs: Mapping[str, Rung], history: Sequence[Champion]
) -> KnownModel:
    candidate, rung = candidates.get(version), rungs.get(f"model:{version}")
    past = next((champion for champion in reversed(history) if champion.version == version), None)
    if past is None:
        status = "" if candidate is None else candidate.status.value
    else:
        status = "champion" if past is history[-1] else "former champion"
        if candidate is not None and candidate.status in _MEASURED:
            status = f"{status}, {candidate.status.value}"
    note = _verdict(candidate) or (past.reason if past is not None else "")
    elo, low, high = (rung.elo, rung.elo_low, rung.elo_high) if rung is not None and rung.anchored else (None, None, None)
    return KnownModel(version, status, elo, low, high, rung.games if rung is not None else 0, note)


def _verdict(candidate: Candidate | None) -> str:
    if candidate is None or candidate.match is None:
        return "" if candidate is None else candidate.reason
    match = candidate.match
    return f"+{match.wins} ={match.draws} -{match.losses} against {match.champion_version}"
