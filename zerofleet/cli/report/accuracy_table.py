"""Section of a report with the recorded accuracy of the run's versions against perfect play."""

from __future__ import annotations

from collections.abc import Iterator

from zerofleet.cli.report.gate_tables import MOST_ROWS
from zerofleet.cli.report.markup import Markup, el, table
from zerofleet.cli.report.sources import source
from zerofleet.library.accuracy_record import ShareValue, latest_results
from zerofleet.library.run_report import RunReport

__all__ = ["accuracy_section"]


def accuracy_section(report: RunReport) -> Iterator[Markup]:
    """Yield the newest measurement of each version in each set of positions."""
    results = latest_results(report.accuracy)
    shown = list(results.items())[-MOST_ROWS:]  # of the newest versions
    if not results:
        about = "No version was measured against perfect play. `zerofleet accuracy` does it for games that are solved."
        yield el("p", about, class_="dim")
        return
    steps = {entry.version: f"{entry.train_steps:,}" for entry in report.models.versions}
    units = " or ".join(sorted({one.accuracy.unit for one in report.accuracy}))
    rows = [
        (
            str(at.version),
            steps.get(at.version, "deleted"),
            at.source,
            at.positions,
            at.play,
            str(found.kept.of),
            *_cells(found.kept),
            str(found.decided.of),
            *_cells(found.decided),
            _cells(found.exact)[0],
            "" if found.mean_lost is None else f"{found.mean_lost:.2f}",
        )
        for at, result in shown
        if (found := result.all) is not None
    ]
    about = (
        "Share of moves that keep the value of the position, with 95 % intervals. The columns after `that matter` leave out "
    )
    yield el("p", about + "positions in which every move keeps it.")
    if len(shown) < len(results):
        yield el("p", f"{len(shown):,} of {len(results):,} measurements, those of the newest versions.", class_="dim")
    yield table(
        "Accuracy against perfect play",
        [
            ">version",
            ">steps",
            "positions of",
            "set",
            "mode",
            ">positions",
            ">kept",
            ">95 %",
            ">that matter",
            ">kept",
            ">95 %",
            ">exact",
            f">{units} lost",
        ],
        rows,
    )
    yield source(report, "accuracy")


def _cells(share: ShareValue) -> tuple[str, str]:
    if share.share is None:
        return "", ""
    return f"{100 * share.share:.1f} %", f"{100 * share.low:.1f} to {100 * share.high:.1f}"
