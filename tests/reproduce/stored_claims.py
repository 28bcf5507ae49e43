"""The page docs/results/claims.md: every claim of the theses with the figure of the stored report of most weight.

python tests/reproduce/stored_claims.py       write it, after a new report or a change of the catalogue
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from stored_pages import stored_reports

from zerofleet.cli.reproduce.figures import with_interval
from zerofleet.presets.theses.catalogue import Claim, Experiment, Thesis, load_thesis, thesis_names
from zerofleet.strength.claims.verdicts import VERDICTS

PAGE = Path(__file__).parents[2] / "docs" / "results" / "claims.md"
Reports: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Values of the stored reports by the name of their page."""

_HEAD = """\
# Claims of the five theses

Every claim that an experiment of [`zerofleet reproduce`](../reproduce.md) decides, with the figure of the thesis and ours.
Where several [reports](theses.md) have one, that of the profile `full` counts, and then that of the most seeds and games.
Intervals are of 95 %; with one seed they hold no luck of training. A verdict links to its report, which has seats,
simulations and the command. Where the column "thesis" has no figure, or only one to reach, the bar is this project's own
reading of the claim: "beaten" is above that bar, not above a result of the thesis. This page is written from the values of
the reports.
"""


class Finding(NamedTuple):
    """Claim of the catalogue with its verdict."""

    experiment: Experiment
    claim: Claim
    page: str
    """Page of the report; empty where no report decides the claim."""
    profile: str
    found: Mapping[str, Any]
    """Claim as the report has it."""

    @property
    def verdict(self) -> str:
        """Verdict of the report."""
        return self.found["verdict"] if self.page else "not run"


def findings(thesis: Thesis, reports: Reports) -> list[Finding]:
    """Return the claims of a thesis in the order of the catalogue."""
    return [
        max(_candidates(thesis, experiment, claim, reports), key=_weight)
        for experiment in thesis.experiments
        for claim in experiment.claims
    ]


def claims_page(reports: Reports) -> str:
    """Return the page."""
    theses = {name: load_thesis(name) for name in thesis_names()}
    found = {name: findings(thesis, reports) for name, thesis in theses.items()}
    shown = [name for name in VERDICTS if any(one.verdict == name for all_of in found.values() for one in all_of)]
    counts = {name: Counter(one.verdict for one in all_of) for name, all_of in found.items()}
    rows = [
        [f"[{name}](#{name})", str(len(found[name])), *(str(counts[name][verdict]) for verdict in shown)] for name in theses
    ]
    total = sum(counts.values(), Counter())
    rows.append(["all", str(total.total()), *(str(total[verdict]) for verdict in shown)])
    parts = [_HEAD, _table(["thesis", "claims", *shown], rows)]
    for name, thesis in theses.items():
        parts += [f"## {name}\n\n{thesis.source}.\n", _of_thesis(found[name])]
        if thesis.uncovered:
            uncovered = [[one.text, one.thesis, one.why] for one in thesis.uncovered]
            parts += ["No experiment covers:\n", _table(["claim", "thesis", "reason"], uncovered)]
    return "\n".join(parts)


def stored_values() -> dict[str, Any]:
    """Return the values of the stored reports by the name of their page."""
    return {path.with_suffix(".html").name: json.loads(path.read_text("utf-8")) for path in stored_reports()}


def _candidates(thesis: Thesis, experiment: Experiment, claim: Claim, reports: Reports) -> Iterator[Finding]:
    yield Finding(experiment, claim, "", "", {})
    wanted = (thesis.name, experiment.name, claim.text, claim.as_json())
    for page, report in reports.items():
        for one in report["experiments"]:
            for found in one["claims"]:
                is_it = (report["thesis"], one["name"], found["text"], found["bar"]) == wanted
                if is_it and found["verdict"] != "not run":
                    yield Finding(experiment, claim, page, report["profile"], found)


def _weight(one: Finding) -> tuple[bool, bool, int, int]:
    estimate = one.found.get("estimate") or {}
    return bool(one.page), one.profile == "full", estimate.get("seeds", 0), estimate.get("games", 0)


def _of_thesis(found: Sequence[Finding]) -> str:
    rows, experiment = [], ""
    for one in found:
        title = one.experiment.title if one.experiment.name != experiment else ""
        experiment = one.experiment.name
        verdict = f"[{one.verdict}](theses/{one.page})" if one.page else one.verdict
        rows.append([title, one.claim.text, one.claim.thesis, *_figure(one), verdict])
    return _table(["experiment", "claim", "thesis", "here", "figure", "profile; seeds; games", "verdict"], rows)


def _figure(one: Finding) -> tuple[str, str, str]:
    """Return figure with interval, its meaning, and the size of its sample."""
    estimate = one.found.get("estimate")
    if not estimate:
        return "", "", one.profile
    size = [one.profile, str(estimate["seeds"])] + ([f"{estimate['games']:,}"] if estimate["games"] else [])
    return with_interval(one.found), one.found["figure"], "; ".join(size)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [list(head), ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(claims_page(stored_values()), "utf-8")
