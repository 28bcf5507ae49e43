"""Command `zerofleet reproduce`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from zerofleet.cli import screen
from zerofleet.cli.laboratory import run_until_terminated
from zerofleet.cli.options import Json
from zerofleet.cli.reproduce.figures import figure_and_interval
from zerofleet.cli.reproduce.page import html_page
from zerofleet.cli.reproduce.report import build_report
from zerofleet.cli.reproduce.results import StageResults
from zerofleet.cli.reproduce.running import Progress, Schedule, run_stages
from zerofleet.errors import InvalidRequest
from zerofleet.presets.theses.catalogue import PROFILES, Thesis, load_thesis, thesis_names
from zerofleet.presets.theses.planning import Planned, expect, plan, profile_of
from zerofleet.storage.files import atomic_publish, try_lock

__all__ = ["reproduce"]


def reproduce(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Thesis; without it the theses are listed.")] = "",
    *,
    profile: Annotated[str, typer.Option("--profile", metavar="NAME", help="quick, full, or tiny for tests.")] = "quick",
    seeds: Annotated[
        int | None, typer.Option("--seeds", metavar="N", min=1, help="Number of seeds.", show_default="the profile's")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="Run this EXPERIMENT, or EXPERIMENT.ARM, only. May be repeated."),
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List theses, experiments and costs, and run nothing.")] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Folder of results and report.", show_default="reproductions/NAME-PROFILE"),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", metavar="J", min=1, help="Stages at a time.")] = 2,
    json: Json = False,
) -> None:
    """Run the experiments of a thesis and report each of its claims as beaten, matched or missed.

    The same command continues an interrupted reproduction. The folder then holds report.html and report.json.
    """
    if profile not in PROFILES:
        raise InvalidRequest(f"{profile!r} is not a profile; choose from {', '.join(PROFILES)}")
    if list_all or not name:
        _list([load_thesis(name)] if name else [load_thesis(one) for one in thesis_names()], json=json)
        return
    thesis = load_thesis(name)
    planned = plan(thesis, profile, seeds=seeds, only=only or ())
    place = folder or Path("reproductions") / f"{name}-{profile}"
    results = StageResults(place)
    with (place / ".lock").open("w") as lock:
        if not try_lock(lock):
            raise InvalidRequest(f"{place} is in use by another reproduction; give another folder with --dir")
        results.require_thesis(thesis.name)
        results.require_settings([one.stage for one in planned])
        everything = plan(thesis, profile, seeds=seeds)
        for one in everything:  # the report reads all of them, and would refuse one after hours of work
            results.tallies(one.stage)
            results.tables(one.stage)
        minutes = thesis.quick_minutes if profile == "quick" else None
        left_out: list[str] = []
        try:
            left_out = _run(planned, results, jobs=jobs, minutes=minutes, notes=_left_out(thesis, profile, only or ()))
        finally:  # an interrupted or failed call reports the stages that are complete
            report = build_report(thesis, profile, everything, results, seeds=seeds) | {"left_out_for_time": left_out}
            atomic_publish(place / "report.json", _text(report))
            atomic_publish(place / "report.html", html_page(report))
    if json:
        screen.emit_json(report)
        return
    _show(report)
    screen.note(f"report: {place / 'report.html'} and {place / 'report.json'}")


def _left_out(thesis: Thesis, profile: str, only: Sequence[str]) -> list[str]:
    """Return the parts that the experiments, or those of `only`, leave out in a profile, in words."""
    chosen = {experiment for name in only for experiment, _ in thesis.arms_named(name)}
    words = {
        one.name: profile_of(one, profile).left_out if profile in one.profiles else f"not part of profile {profile}"
        for one in thesis.experiments
        if one.name in chosen or not only
    }
    return [f"left out of {name}: {what}" for name, what in words.items() if what]


def _run(
    planned: Sequence[Planned], results: StageResults, *, jobs: int, minutes: float | None, notes: Sequence[str]
) -> list[str]:
    """Run the stages without a result, after the `notes`; return those for which the time did not suffice."""
    schedule = Schedule(waiting=[])
    for one in planned:
        if results.read(one.stage) is None:
            schedule.waiting.append(one)
        else:
            schedule.note(one.stage.id, results.diverged(one.stage))
    waiting = tuple(schedule.waiting)
    if not waiting:
        return []
    limit_s = None if minutes is None else 60.0 * minutes
    expected = expect(waiting, jobs=jobs, limit_s=limit_s, complete=schedule.complete)
    number = f"{len(waiting)} stage{'s' * (len(waiting) > 1)}"
    screen.note(f"{number}, {jobs} at a time: about {expected.seconds / 60.0:.0f} min where each has a core")
    if expected.late:
        screen.note(f"the time does not suffice for {', '.join(expected.late)}; the same command continues")
    for note in notes:
        screen.note(note)
    began_s = time.monotonic()
    schedule.deadline_s = minutes and began_s + 60.0 * minutes
    progress = Progress(sum(one.seconds for one in waiting))
    counted = 0
    with screen.meter("seconds of work", round(progress.total_s)) as meter:

        def on_progress(one: Planned, share: float, remark: str) -> None:
            nonlocal counted
            progress.note(one, share)
            left_s = progress.left_s(time.monotonic() - began_s)
            steps = int(progress.done_s) - counted
            counted += steps
            meter.advance(
                steps, f"{one.stage.id}: {remark}" + ("" if left_s is None else f"; about {left_s / 60.0:.0f} min left")
            )

        run_until_terminated(run_stages(schedule, results, jobs=jobs, on_progress=on_progress))
    return schedule.left_out


def _list(theses: Sequence[Thesis], *, json: bool) -> None:
    """Show theses, their experiments, claims and expected costs."""
    rows: list[dict[str, Any]] = []
    for thesis in theses:
        for experiment in thesis.experiments:
            costs = {}
            for profile in experiment.profiles:
                stages = [one for one in plan(thesis, profile) if one.experiment == experiment.name]
                costs[profile] = {"stages": len(stages), "minutes": round(sum(one.seconds for one in stages) / 60.0, 1)}
            rows.append(
                {
                    "thesis": thesis.name,
                    "experiment": experiment.name,
                    "title": experiment.title,
                    "claims": len(experiment.claims),
                    "costs": costs,
                }
            )
    uncovered = {thesis.name: [one.model_dump() for one in thesis.uncovered] for thesis in theses}
    if json:
        screen.emit_json({"experiments": rows, "uncovered": uncovered})
        return
    table = screen.table("thesis", "experiment", ">claims", ">quick, core min", ">full, core min", "title")
    for row in rows:
        quick, full = (f"{row['costs'][one]['minutes']:g}" if one in row["costs"] else "-" for one in ("quick", "full"))
        table.add_row(row["thesis"], row["experiment"], str(row["claims"]), quick, full, row["title"])
    screen.out().print(table)
    missing = screen.table("thesis", "claim without an experiment", "reason")
    for thesis_name, claims in uncovered.items():
        for claim in claims:
            missing.add_row(thesis_name, claim["text"], claim["why"])
    screen.out().print()
    screen.out().print(missing)


def _show(report: dict[str, Any]) -> None:
    """Print the verdicts."""
    table = screen.table(
        "claim", "thesis", ">here", ">95 %", "verdict", title=f"{report['title']}, profile {report['profile']}"
    )
    for experiment in report["experiments"]:
        for claim in experiment["claims"]:
            table.add_row(claim["text"], claim["thesis"], *figure_and_interval(claim), claim["verdict"])
    screen.out().print(table)
    if report["left_out_for_time"]:
        screen.note(f"not begun for lack of time: {', '.join(report['left_out_for_time'])}; the same command continues")


def _text(report: dict[str, Any]) -> str:
    import json  # noqa: PLC0415 - the option has its name

    return json.dumps(report, indent=1, allow_nan=False)
