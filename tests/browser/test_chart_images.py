"""Charts of the curves as PNG: the file has the size, the colours and the lines of what is seen."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, Route, expect

Opener = Callable[..., Page]
Keeper = Callable[[Page, str], None]
Saver = Callable[[Page, str], np.ndarray]
BLUE, RED = (0x2F, 0x7F, 0xB8), (0xC8, 0x41, 0x2F)
CARDS = {"light": (0xFF, 0xFF, 0xFF), "dark": (0x20, 0x1E, 0x1B)}
PAD, HEAD = 14, 54  # pixels beside and above the canvas


@pytest.fixture
def saved(tmp_path: Path, screenshots: Path | None) -> Saver:
    """Return the function that saves a chart by its button and returns the pixels. int16 [H, W, 3]."""

    def save(page: Page, chart: str) -> np.ndarray:
        with page.expect_download() as begun:
            page.get_by_role("button", name=f"PNG of the chart {chart}", exact=True).click()
        path = tmp_path / begun.value.suggested_filename
        begun.value.save_as(path)
        assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        if screenshots:
            shutil.copy(path, screenshots / path.name)
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB"), dtype=np.int16)

    return save


def has(pixels: np.ndarray, colour: tuple[int, int, int]) -> int:
    """Return the number of pixels of a colour, nearly."""
    return int((np.abs(pixels - np.array(colour)).max(axis=-1) <= 8).sum())


def is_drawn(pixels: np.ndarray) -> bool:
    return len(np.unique(pixels.reshape(-1, 3), axis=0)) > 8


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_a_chart_is_saved_as_it_is_seen(open_page: Opener, saved: Saver, tmp_path: Path, width: int, scheme: str) -> None:
    page = open_page("/runs/golden/curves", width=width, scheme=scheme)
    page.wait_for_selector("#charts canvas")
    canvas = page.locator("#charts .chart", has=page.get_by_role("heading", name="Loss")).locator("canvas")
    across, high = canvas.evaluate("(one) => [one.width, one.height]")
    pixels = saved(page, "Loss")
    assert [one.name for one in tmp_path.iterdir()] == ["golden-Loss-step.png"]
    assert pixels.shape[1] == across + 2 * PAD
    assert pixels.shape[0] > HEAD + high
    assert tuple(pixels[0, 0]) == CARDS[scheme]
    parts = (pixels[:HEAD], pixels[HEAD : HEAD + high], pixels[HEAD + high : HEAD + high + 20], pixels[HEAD + high + 20 :])
    assert [is_drawn(part) for part in parts] == [True] * 4  # title, chart, axis and legend
    assert has(parts[1], BLUE) > 100  # the line of the loss
    assert has(parts[3], BLUE) > 10  # and its place in the legend


def test_a_series_that_is_hidden_is_not_in_the_image(open_page: Opener, saved: Saver) -> None:
    page = open_page("/runs/golden/curves")
    page.wait_for_selector("#charts canvas")
    title = page.locator("#charts .chart h2").filter(has_text="Accuracy").locator("span").first.text_content() or ""
    before = saved(page, title)
    chart = page.locator("#charts .chart", has_text="Accuracy")
    chart.locator(".u-legend .u-series th").nth(2).click()
    expect(chart.locator(".u-legend .u-off")).to_have_count(1)
    after = saved(page, title)
    assert has(before, RED) > 10
    assert has(after, RED) == 0
    assert has(after, BLUE) > 10


def test_a_comparison_names_its_runs(open_page: Opener, saved: Saver, hostile: str) -> None:
    page = open_page("/runs/golden/curves")
    page.wait_for_selector("#charts canvas")
    page.get_by_text("Compare with other runs").click()
    page.get_by_label(hostile).check()
    page.wait_for_selector("#charts canvas")
    expect(page.locator("#legend .swatch")).to_have_count(2)
    pixels = saved(page, "Loss")
    assert has(pixels, BLUE) > 10
    assert has(pixels, RED) > 10


def test_promotions_of_overlaid_runs_are_marked_in_the_colour_of_each_run(
    open_page: Opener, keep: Keeper, saved: Saver, hostile: str
) -> None:
    page = open_page("/api")
    page.route("**/api/v1/runs/*/curves", _with_promotion)
    page.goto(f"/runs/golden/curves?with={quote(hostile)}")
    page.wait_for_selector("#charts canvas")
    keep(page, "curves-overlaid")
    marked = saved(page, "Loss")
    page.get_by_label("promotions").uncheck()
    plain = saved(page, "Loss")
    rows = [slice(HEAD + 10 + 8 * row, HEAD + 10 + 8 * row + 20) for row in (0, 1)]
    for row, colour in zip(rows, (BLUE, RED), strict=True):
        assert has(marked[row], colour) >= has(plain[row], colour) + 10
    assert len(marked) > len(plain)  # the legend names the promotions of each run


def _with_promotion(route: Route) -> None:
    """Answer with the curves of a run and a promotion at step 50."""
    found = route.fetch()
    route.fulfill(response=found, json={**found.json(), "promotions": [{"version": 2, "step": 50, "games": 20, "hours": 0.1}]})
