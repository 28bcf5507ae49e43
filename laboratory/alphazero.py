"""Training by AlphaZero for a stage: the loop of the laboratory with meetings as its judge.

    networks/<stage>/judged.json     starts and judgements so far; at last the result
    networks/<stage>/run/            run directory of the loop until then: games, checkpoints, models
    networks/<stage>/models/         model store with the last version of a finished stage

An interrupted stage continues from its last version with all finished games. Games in progress are lost, so that its figures
differ from those of a stage that was not interrupted; the budget in samples makes those repeatable.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from games.core import Game
from laboratory.illegal_mass import illegal_mass, stored_policy
from laboratory.loop import Event, Loop
from laboratory.measures import trained_measures
from laboratory.meetings import Table, meet
from laboratory.models import keep_version
from laboratory.networks import Networks
from laboratory.self_play_tables import check_tables, self_play_tables
from zerofleet.contracts.naming import model_name
from zerofleet.errors import ConfigurationError, Diverged
from zerofleet.evaluators.base import Evaluator
from zerofleet.presets.theses.stages import PREVIOUS, AlphaZeroStage
from zerofleet.presets.trial import Trial
from zerofleet.storage.files import atomic_publish
from zerofleet.storage.model_store import DirectoryStore, ModelStore
from zerofleet.storage.runs import RunPaths
from zerofleet.strength.claims.tallies import Tally
from zerofleet.strength.claims.verdicts import DIVERGED
from zerofleet.strength.learning.judges import Measure

__all__ = ["HOURS", "ILLEGAL_AT_FIRST", "ILLEGAL_AT_LAST", "MeetingsJudge", "train"]

_RUN = "run"
HOURS = "processor hours of training"
"""Measure of every stage: processor time of self-play and training in all starts, without judgements."""
ILLEGAL_AT_LAST = "policy on illegal moves in its own games, %"
ILLEGAL_AT_FIRST = "policy on illegal moves in its own games, first version, %"
"""Measures of a stage whose policy is over all actions, without search (`laboratory.illegal_mass`)."""
KEEP_EVERY_S = 60.0
"""Seconds between two judgements after which the sums are kept: a killed start loses at most as many of them."""
_SUMS = ("evaluations", "cpu_seconds_used")
_TOTALS = ("games", "samples", "steps")


class MeetingsJudge:
    """Judge that plays the meetings of a stage and keeps their tallies; see `zerofleet.strength.learning.judges.Judge`."""

    def __init__(self, stage: AlphaZeroStage, table: Table, store: ModelStore) -> None:
        """`table`: conditions of the meetings, without a version; `store`: versions of the stage."""
        self._stage = stage
        self._table = table
        self._store = store
        self.latest: list[Tally] = []
        """Tallies of the last judgement."""

    async def judge(self, evaluator: Evaluator, version: int) -> list[Measure]:
        """Play the meetings, without those against the version before if there is none. Cancellation: nothing is kept."""
        # a publication that failed has used up its number
        before = max((one for one in self._store.versions(model_name(self._table.game)) if one < version), default=None)
        table = replace(self._table, version=version, version_before=before, evaluator=evaluator)
        arena = [meeting for meeting in self._stage.meetings if PREVIOUS in {meeting.subject, meeting.opponent}]
        if arena and before is not None and isinstance(evaluator, Networks):
            evaluator.load(before)  # another start has loaded the newest one alone
        played = [meeting for meeting in self._stage.meetings if before is not None or meeting not in arena]
        self.latest = [tally for meeting in played for tally in await meet(meeting, table, on_game=lambda: None)]
        return []


class _Kept:
    """Starts and judgements of a stage in a file, with which another start continues."""

    def __init__(self, folder: Path) -> None:
        """Read the file of earlier starts, if their run directory is there, and count this one."""
        self._path = folder / "judged.json"
        known = json.loads(self._path.read_text("utf-8")) if self._path.exists() else {}
        self.result: dict[str, Any] | None = known.get("result")
        known = known if (folder / _RUN).exists() else {}
        self.starts: int = known.get("starts", 0) + 1
        self.planned: float = known.get("planned", 0.0)
        self.tallies: list[dict[str, Any]] = known.get("tallies", [])
        self.curve: list[dict[str, Any]] = known.get("curve", [])
        self.sums: dict[str, float] = known.get("sums", dict.fromkeys(_SUMS, 0.0))
        self._before = dict(self.sums)
        self._saved_s = time.monotonic()
        if self.result is None:
            self._save()

    def judgement(self, event: Event, tallies: list[Tally]) -> None:
        """Keep a judgement."""
        self.planned = event["planned"]
        self.tallies += [replace(tally, at=event["games"]).as_json() for tally in tallies]
        self.curve.append({"games": event["games"], "samples": event["samples"], "losses": event["losses"]})
        self.count(event)
        self._save()

    def count(self, event: Event) -> None:
        """Add the sums of this start to those of earlier ones, and keep them now and then."""
        self.sums = {name: self._before[name] + event[name] for name in _SUMS}
        if time.monotonic() - self._saved_s >= KEEP_EVERY_S:
            self._save()

    def finish(self, result: dict[str, Any]) -> dict[str, Any]:
        """Keep the result, and return it."""
        self.result = result
        self._save()
        return result

    def _save(self) -> None:
        self._saved_s = time.monotonic()
        names = ("starts", "planned", "tallies", "curve", "sums", "result")
        atomic_publish(self._path, json.dumps({name: getattr(self, name) for name in names}, allow_nan=False))


async def train(stage: AlphaZeroStage, folder: Path, *, emit: Callable[[float, str], None]) -> dict[str, Any]:
    """Return the tallies and losses of each judgement, the totals, and the tables of behaviour.

    Args:
        stage: The stage.
        folder: Folder of the stage, empty or of an earlier start.
        emit: Called with the share of the budget spent and a remark.

    Raises the errors of the loop, `Diverged` excepted: the result then has the reason; `ConfigurationError` if games of agents
    spend the whole budget, so that no version was trained; `InvalidRequest` for a table that does not suit the game.
    Cancellation: another start continues.
    """
    kept, run = _Kept(folder), folder / _RUN
    if kept.result is not None:  # killed before the result was read
        shutil.rmtree(run, ignore_errors=True)
        return kept.result
    trial = Trial(
        game=stage.game,
        preset=stage.preset,
        parameters=stage.parameters,
        settings=stage.settings,
        seed=stage.seed,
        samples=stage.samples,
        judge_every=stage.judge_every,
        simulations=0,
    )
    game = trial.build_game()
    check_tables(stage.tables, game)
    run.mkdir(exist_ok=True)
    store = DirectoryStore(RunPaths(run).models)
    judge = MeetingsJudge(stage, Table(game=game, seed=stage.seed, trained=True, sides={}), store)
    end: dict[str, Any] = {}

    def on_event(event: Event) -> None:
        emit(min(1.0, event["done"] / stage.samples), f"{event['games']:,} games")
        if event["event"] == "judgement":
            kept.judgement(event, judge.latest)
            return
        kept.count(event)
        if event["event"] == "end":
            end.update(event)

    try:
        await Loop(trial, run, judge=judge, emit=on_event, start=kept.starts, judged=kept.planned).run()
        if not end["version"]:
            raise ConfigurationError(
                f"stage {stage.id}: {end['games']:,} games of the warm start have {end['samples']:,} samples, and the budget "
                f"is {stage.samples:,}: no version was trained; raise samples, or lower warm_start.games"
            )
        totals = {name: end[name] for name in (*_TOTALS, "weights")} | kept.sums | {"starts": kept.starts}
        measures = trained_measures([point["losses"] for point in kept.curve])
        measures |= _illegal_masses(trial, store, game, last=end["version"])
        measures[HOURS] = round(kept.sums["cpu_seconds_used"] / 3600.0, 4)
        tables = await self_play_tables(stage.tables, game, RunPaths(run))
        found: dict[str, Any] = {"measures": measures, "totals": totals, "tables": tables}
        keep_version(store, game, end["version"], folder)
    except Diverged as error:
        found = {DIVERGED: str(error)}
    result = kept.finish({"tallies": kept.tallies, "curve": kept.curve, **found})
    shutil.rmtree(run)
    return result


def _illegal_masses(trial: Trial, store: ModelStore, game: Game, *, last: int) -> dict[str, float]:
    """Return the measures of the first and the last version. Raises `CorruptModel`, `Unavailable`.

    Empty for a policy over legal actions, and for a game in which several players move at once or hands are hidden.
    """
    if trial.build_preset().train.policy_over != "all" or game.spec().information != "perfect":
        return {}
    versions = {ILLEGAL_AT_FIRST: min(store.versions(model_name(game))), ILLEGAL_AT_LAST: last}
    return {
        name: round(100.0 * illegal_mass(stored_policy(store, game, version), game, seed=trial.seed), 4)
        for name, version in versions.items()
    }
