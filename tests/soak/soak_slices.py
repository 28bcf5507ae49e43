"""Slices of a soak on disk, and their sum.

DIR/soak.json                    what all slices share: project, seed, workers, games counted so far
DIR/slices/0003/findings.json    what a slice found, written once at its end; a killed slice has only the folder
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from soak_faults import Harm
from soak_logs import Line
from soak_memory import Sample
from soak_report import Findings

from zerofleet.storage.files import atomic_publish, make_directory


@dataclass(slots=True)
class Run:
    """Settings and progress that the slices of a run share."""

    project: str
    seed: int
    workers: int
    counted_games: int = 0  # number of the first stored game that no finished slice has counted


def load_run(folder: Path, wanted: Run) -> Run:
    """Return the run in `folder`, or begin `wanted` there. Raises `ValueError` when its seed or workers differ."""
    path = folder / "soak.json"
    if not path.exists():
        make_directory(folder)
        save_run(folder, wanted)
        return wanted
    found = Run(**json.loads(path.read_text()))
    if (found.seed, found.workers) != (wanted.seed, wanted.workers):
        raise ValueError(
            f"{folder} holds a soak with seed {found.seed} and {found.workers} workers, not {wanted.seed} and {wanted.workers}"
        )
    return found


def save_run(folder: Path, run: Run) -> None:
    atomic_publish(folder / "soak.json", json.dumps(asdict(run)))


def begin_slice(folder: Path) -> int:
    """Return the number of the next slice, 1 for the first; its folder exists from now on, so that no other has the number."""
    number = 1 + max((int(path.name) for path in (folder / "slices").glob("[0-9]*")), default=0)
    make_directory(folder / "slices" / f"{number:04}")
    return number


def save_slice(folder: Path, number: int, found: Findings) -> None:
    """Write what a slice found, atomically."""
    atomic_publish(folder / "slices" / f"{number:04}" / "findings.json", json.dumps(asdict(found)))


def load_slices(folder: Path) -> tuple[list[Findings], int]:
    """Return the findings of all finished slices in order, and the number of slices that ended without any."""
    begun = sorted((folder / "slices").glob("[0-9]*"))
    finished = [path / "findings.json" for path in begun if (path / "findings.json").exists()]
    return [_parse(path.read_text()) for path in finished], len(begun) - len(finished)


def _parse(text: str) -> Findings:
    fields = json.loads(text)
    fields["samples"] = [Sample(**each) for each in fields["samples"]]
    fields["harms"] = [Harm(**each) for each in fields["harms"]]
    fields["loud"] = [Line(**each) for each in fields["loud"]]
    return Findings(**fields)


def total(slices: Sequence[Findings], *, unfinished: int = 0) -> Findings:
    """Return the sum of slices: counts added, moments counted from the beginning of the first."""
    found = Findings(seed=slices[0].seed, workers=slices[0].workers, slices=0, unfinished=unfinished)
    for each in slices:
        began_s = 60 * found.minutes
        found.samples += [replace(sample, at_s=sample.at_s + began_s) for sample in each.samples]
        found.harms += [replace(harm, at_s=harm.at_s + began_s, until_s=harm.until_s + began_s) for harm in each.harms]
        found.loud += [replace(line, at_s=line.at_s + began_s) for line in each.loud]
        found.not_made |= each.not_made
        found.minutes += each.minutes
        found.slices += each.slices
        found.published += each.published
        found.stored += each.stored
        found.twice += each.twice
        found.lost += each.lost
        found.unasked += each.unasked
        found.champion = each.champion
    return found
