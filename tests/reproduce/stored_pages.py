"""Pages of the stored reports in docs/results/theses, from their values; nothing runs again.

python tests/reproduce/stored_pages.py        write them, after a change of the page or with a new report.json

Values are stored in one line each: nobody reads them by eye, and a line for each number was a third of the repository's lines.
"""

from __future__ import annotations

import json
from pathlib import Path

from zerofleet.cli.reproduce.page import html_page

FOLDER = Path(__file__).parents[2] / "docs" / "results" / "theses"


def stored_reports() -> list[Path]:
    """Return the files of values, ordered by name."""
    return sorted(FOLDER.glob("*.json"))


def page_of(values: Path) -> str:
    """Return the page of a stored report."""
    return html_page(json.loads(values.read_text("utf-8")))


def compact(values: str) -> str:
    """Return the values of a report in one line."""
    return json.dumps(json.loads(values), separators=(",", ":"), ensure_ascii=False) + "\n"


def main() -> None:
    """Write the page beside each file of values, and the values in one line."""
    for values in stored_reports():
        values.write_text(compact(values.read_text("utf-8")), "utf-8")
        values.with_suffix(".html").write_text(page_of(values), "utf-8")


if __name__ == "__main__":
    main()
