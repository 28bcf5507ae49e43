"""Line below a section of a report: the commands that print its figures."""

from __future__ import annotations

from zerofleet.cli.report.markup import Markup, el
from zerofleet.library.run_report import RunReport

__all__ = ["source"]


def source(report: RunReport, *names: str) -> Markup:
    """Return the line with the named commands of a report; those that it has not are left out."""
    known = [el("code", report.commands[name]) for name in names if name in report.commands]
    return el("p", *(part for place, one in enumerate(known) for part in ((" · ", one) if place else (one,))), class_="source")
