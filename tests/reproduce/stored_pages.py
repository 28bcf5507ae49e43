"""Pages of the stored reports in docs/results/theses, from their values; nothing runs again.

python tests/reproduce/stored_pages.py        write them, after a change of the page
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


def main() -> None:
    """Write the page beside each file of values."""
    for values in stored_reports():
        values.with_suffix(".html").write_text(page_of(values), "utf-8")


if __name__ == "__main__":
    main()
