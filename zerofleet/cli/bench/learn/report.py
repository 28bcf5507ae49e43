"""Report of `bench learn`: JSON of everything, tables for people."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from zerofleet.agents.model.search_options import SearchOptions
from zerofleet.cli import screen
from zerofleet.cli.bench.learn.trials import TrialResult
from zerofleet.errors import ConfigurationError, InvalidRequest
from zerofleet.presets.trial import PARTS_OF_TRIAL, Trial
from zerofleet.storage.files import atomic_publish
from zerofleet.strength.charts import learning_chart
from zerofleet.strength.learning.curves import compare, curve

__all__ = ["about", "draw", "read_result", "remark", "require_comparable", "require_judged", "show", "show_comparison", "store"]

FORMAT = 1


def about(trial: Trial) -> dict[str, Any]:
    """Return the description of the trials and of the machine, without seeds and figures."""
    preset = trial.build_preset()
    fields = trial.model_dump(include={"game", "preset", "parameters", "settings", "judge_every"})
    return {
        "format": FORMAT,
        **fields,
        "unit": "processor seconds" if trial.samples is None else "samples",
        "budget": trial.budget,
        "judge": _judge(trial),
        "preset_values": {name: getattr(preset, name).model_dump() for name in PARTS_OF_TRIAL},
        "machine": {"processor": _processor(), "cores": os.cpu_count(), "python": platform.python_version()},
        "versions": {name: version(name) for name in ("torch", "numpy", "numba")},
    }


def store(path: Path | None, about: Mapping[str, Any], results: Sequence[TrialResult]) -> dict[str, Any]:
    """Return the whole result, and write it to `path` if there is one."""
    seeds = [result.as_json() for result in sorted(results, key=lambda result: result.seed)]
    whole = {**about, "seeds": seeds, "curve": [asdict(point) for point in curve(seeds)]}
    if path is not None:
        atomic_publish(path, json.dumps(whole, indent=1).encode())
    return whole


def read_result(path: Path) -> dict[str, Any]:
    """Return a stored result; raises `InvalidRequest` for a file without one."""
    try:
        found = from_json(path.read_bytes())
        if found["format"] != FORMAT or not found["seeds"]:
            raise InvalidRequest(f"{path} has format {found['format']}, this version reads {FORMAT}; measure it again")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidRequest(f"{path} is not a result of `zerofleet bench learn --out`: {error!r}") from error
    return dict(found)


def require_comparable(about: Mapping[str, Any], earlier: Mapping[str, Any], name: str) -> None:
    """Raise `InvalidRequest` unless an earlier result is of the same game, unit and judge.

    A term that one of them lacks is a difference: earlier releases, some of which judged by another search, do not state it.
    """
    here, there = _terms(about), _terms(earlier)
    for key in {**here, **there}:
        if key not in there:
            raise InvalidRequest(f"{name} cannot be compared: it states no {key}, here {here[key]}; measure it again")
        if key not in here or here[key] != there[key]:
            own = here.get(key, "none")
            raise InvalidRequest(f"{name} cannot be compared: its {key} is {there[key]}, here {own}; measure one of them again")


def require_judged(results: Sequence[TrialResult]) -> None:
    """Raise `ConfigurationError` if no trial came to a judgement: the games of its warm start spent the budget."""
    if any(result.judgements for result in results):
        return
    games, samples = (max(result.end[name] for result in results if result.end) for name in ("games", "samples"))
    raise ConfigurationError(
        f"{games:,} games of the warm start with {samples:,} samples spent the budget: no version was trained or judged; "
        "raise --samples or --cpu-seconds, or lower warm_start.games"
    )


def remark(result: TrialResult, event: Mapping[str, Any]) -> str:
    """Return the text beside the progress bar."""
    text = f"seed {result.seed}: {event['games']:,} games, {event['samples']:,} samples, {event['steps']:,} steps"
    if result.judgements:
        first = result.judgements[-1]["measures"][0]
        text += f"; {first['name']} {first['value']:.1%}"
    return text


def show(result: Mapping[str, Any]) -> None:
    """Print the curve of the measures, and the figures of the last judgement."""
    points = curve(result["seeds"])
    names = list(dict.fromkeys(point.name for point in points))
    columns = (column for name in names for column in (f">{name}", ">95 %"))
    rows = screen.table(f">{result['unit']}", *columns, "curve", title=_title(result))
    for at in dict.fromkeys(point.at for point in points):
        here = {point.name: point for point in points if point.at == at}
        cells = [
            cell
            for point in (here[name] for name in names)
            for cell in (f"{point.mean:.1%}", f"{100 * point.low:.1f} to {100 * point.high:.1f}")
        ]
        rows.add_row(f"{at:,.0f}", *cells, screen.share_bar(here[names[0]].mean))
    screen.out().print(rows)
    kind = "over seeds (Student)" if len(result["seeds"]) > 1 else "of the judge (one seed: without the luck of training)"
    screen.note(f"intervals {kind}")
    screen.out().print()
    screen.out().print(_figures(result))


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Draw the curve of every measure; raises `InvalidRequest` for a file name of another format."""
    learning_chart(curve(result["seeds"]), title=_title(result), path=path, x_label=result["unit"])


def _title(result: Mapping[str, Any]) -> str:
    changes = " ".join(f"{name}={value}" for name, value in {**result["parameters"], **result["settings"]}.items())
    count = len(result["seeds"])
    return f"{result['game']}, preset {result['preset']}{' ' + changes if changes else ''}: {count} seed{'s' * (count > 1)}"


def show_comparison(result: Mapping[str, Any], earlier: Mapping[str, Any], name: str) -> None:
    """Print the differences to an earlier result at the last common judgement."""
    found = compare(result["seeds"], earlier["seeds"])
    if not found:
        screen.note(f"{name} has no judgement at the same place; nothing to compare")
        return
    title = f"difference to {name} at {found[0].at:,.0f} {result['unit']}"
    rows = screen.table("measure", ">here", ">there", ">difference", ">95 %", "interval", title=title)
    for one in found:
        rows.add_row(
            one.name,
            f"{one.first:.1%}",
            f"{one.second:.1%}",
            f"{100 * one.difference:+.1f}",
            f"{100 * one.low:+.1f} to {100 * one.high:+.1f}",
            one.interval,
        )
    screen.out().print()
    screen.out().print(rows)


def _figures(result: Mapping[str, Any]) -> Any:
    """Return a table of totals, one column for each seed."""
    seeds = [seed for seed in result["seeds"] if seed["judgements"]]
    rows = screen.table("figure", *(f">seed {seed['seed']}" for seed in seeds))
    last = [seed["judgements"][-1] for seed in seeds]

    def add(label: str, form: str, *path: str) -> None:
        cells = []
        for one in last:
            value: Any = one
            for key in path:
                value = value[key]
            cells.append("" if value is None else format(value, form))
        rows.add_row(label, *cells)

    add("games", ",", "games")
    add("samples", ",", "samples")
    add("steps", ",", "steps")
    add("version", ",", "version")
    add("evaluations", ",", "evaluations")
    add("evaluations per sample", ".1f", "evaluations_per_sample")
    add("games resigned", ".1%", "since_last", "resigned_share")
    add("entropy of targets, nat", ".2f", "since_last", "target_entropy_nat")
    add("new positions", ".1%", "since_last", "new_positions_share")
    add("wins in one overlooked", ".1%", "since_last", "wins_in_one_overlooked_share")
    for part in last[0]["cpu_seconds"] if last else ():
        add(f"processor seconds: {part.replace('_', '-')}", ",.1f", "cpu_seconds", part)
    return rows


def _terms(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the terms that are equal in comparable results; those of the judge have names such as `judge.kind`."""
    judge = about.get("judge")
    fields = judge if isinstance(judge, Mapping) else {}
    named = {key: about[key] for key in ("game", "parameters", "unit") if key in about}
    return named | {f"judge.{key}": value for key, value in fields.items()}


def _judge(trial: Trial) -> dict[str, Any]:
    """Return the description of the judge; equal descriptions give comparable measures."""
    search = str(SearchOptions.of_match(trial.build_game().spec(), trial.simulations))
    play = {"simulations": trial.simulations, **({"search": search} if search else {})}  # absent for the policy alone
    if not trial.positions:
        terms = {"opponents": list(trial.opponents), "games": trial.games, "seed": trial.judge_seed}
        return {"kind": "matches", **play, **terms}
    content = Path(trial.positions).read_bytes()
    digest = hashlib.blake2b(content, digest_size=8).hexdigest()
    return {"kind": "perfect play", **play, "positions": len(json.loads(content)), "digest": digest}


def _processor() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
