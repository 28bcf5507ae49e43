"""Stored reports of `zerofleet reproduce`: pages as wide as the window, whatever their tables, and accessible."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

FOLDER = Path(__file__).parents[2] / "docs" / "results" / "theses"
CHECKED = ("abalone", "chinese_checkers_2p_full")  # the rules of axe take half a minute on the longest pages
SIDEWAYS = "(box) => { box.scrollLeft = 1e6; return box.scrollLeft; }"


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")])
def test_a_report_scrolls_sideways_in_its_boxes_alone(
    browser: Browser, keep: Callable[[Page, str], None], width: int, scheme: str
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    faults: list[str] = []
    page = context.new_page()
    page.on("console", lambda message: faults.append(f"console: {message.text}"))
    for path in sorted(FOLDER.glob("*.html")):
        page.goto(path.as_uri())
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            faults.append(f"{path.stem}: wider than the window")
        moved = [box.evaluate(SIDEWAYS) for box in page.locator(".scroll").all()]
        assert (max(moved) > 0) == (width == 390), path.stem
        assert page.evaluate("scrollX") == 0
        if path.stem in CHECKED:
            keep(page, f"report-{path.stem}-{scheme}")
            found = Axe().run(page).response["violations"]
            faults += [f"{path.stem}: {one['id']}: {node['html'][:160]}" for one in found for node in one["nodes"]]
    context.close()
    assert faults == []
