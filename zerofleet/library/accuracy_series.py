"""Series of a run's accuracy against perfect play, over the training of its versions.

The rows of the group `accuracy` are the measured versions; a series has one set of positions, one mode and one search.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from zerofleet.library.accuracy_record import MeasuredAccuracy, latest_results
from zerofleet.library.model_list import ModelEntry
from zerofleet.library.series import Axes, RunSeries, Series

__all__ = ["with_accuracy"]

CHART = "Accuracy: value kept where it can be lost"
_SOURCES = {"random": "random games", "self-play": "self-play", "stored": "stored games", "file": "a file"}


def with_accuracy(
    found: RunSeries, measured: Sequence[MeasuredAccuracy], stored: Sequence[ModelEntry], began_at: datetime | None
) -> RunSeries:
    """Return the series of a run with those of its accuracy; versions that are not among the `stored` ones are left out.

    `began_at` is the time of hour 0; None for a run without metrics, whose measurements then have no place in time.
    """
    entries = {entry.version: entry for entry in stored}
    results = {at: result for at, result in latest_results(measured).items() if at.version in entries}
    rows = sorted({at.version for at in results}, key=lambda version: (entries[version].train_steps, version))
    if not rows:
        return found
    kinds = sorted({at._replace(version=0) for at in results}, key=lambda kind: (kind.mode != "policy alone", kind))
    series = [
        Series(
            name=re.sub(r"[^A-Za-z0-9]+", "_", f"accuracy_{kind.source}_{kind.play}_{kind.positions}"),
            label=f"{kind.play}, {_SOURCES.get(kind.source, kind.source)}: {kind.positions}",
            unit="share",
            chart=CHART,
            group="accuracy",
            values=tuple(
                result.all.decided.share if (result := results.get(kind._replace(version=version))) and result.all else None
                for version in rows
            ),
        )
        for kind in kinds
    ]
    axes = Axes(
        step=tuple(float(entries[version].train_steps) for version in rows),
        games=tuple(float(entries[version].games_seen) for version in rows),
        hours=tuple(_hours(entries[version], began_at) for version in rows),
    )
    return found.model_copy(update={"axes": {**found.axes, "accuracy": axes}, "series": (*found.series, *series)})


def _hours(entry: ModelEntry, began_at: datetime | None) -> float | None:
    if began_at is None or entry.created_at is None:
        return None
    return (entry.created_at - began_at).total_seconds() / 3600.0
