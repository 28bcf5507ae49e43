"""Page of a report: wide content scrolls in a box of its own, and the stored pages are those of the stored values."""

from __future__ import annotations

import json
import re
from html import escape
from xml.etree import ElementTree

import pytest
from stored_pages import page_of, stored_reports

from zerofleet.cli.reproduce import page as page_module
from zerofleet.cli.reproduce.page import html_page
from zerofleet.strength.behaviour.tables import Measured

REPORTS = pytest.mark.parametrize("values", stored_reports(), ids=lambda path: path.stem)


def without_figures(page: str) -> str:
    return re.sub(r"<svg.*?</svg>\n", "<svg/>\n", page, flags=re.DOTALL)


@pytest.fixture
def undrawn(monkeypatch):
    """Replace the figures of experiments and of behaviour, which take a second, by empty ones."""
    monkeypatch.setattr(
        page_module, "draw_experiment", lambda one, _: "<svg/>\n" if any(arm["rows"] for arm in one["arms"]) else ""
    )
    monkeypatch.setattr(
        page_module,
        "draw_behaviour",
        lambda found, _: "<svg/>\n" if any(isinstance(cell, Measured) for row in found.rows for cell in row) else "",
    )


@REPORTS
def test_each_table_and_figure_is_in_a_box_that_scrolls_by_mouse_and_keyboard(undrawn, values):
    root = ElementTree.fromstring(page_of(values).removeprefix("<!DOCTYPE html>"))
    boxes = root.findall(".//div[@class='scroll']")
    inside = [element for box in boxes for element in box]
    wide = [element for element in root.iter() if element.tag in {"table", "svg"}]
    assert wide
    assert inside == wide
    assert {box.attrib["tabindex"] for box in boxes} == {"0"}
    labels = [box.attrib["aria-label"] for box in boxes]
    assert labels[0] == "Headlines"
    assert len(set(labels)) == len(labels)


@REPORTS
def test_a_narrow_window_is_not_scaled(undrawn, values):
    assert '<meta name="viewport" content="width=device-width, initial-scale=1"/>' in page_of(values)


@REPORTS
def test_a_stored_page_is_that_of_its_values(undrawn, values):
    stored = without_figures(values.with_suffix(".html").read_text("utf-8"))
    assert stored == page_of(values), "python tests/reproduce/stored_pages.py writes it again"


@pytest.fixture
def values_of_one_experiment():
    """Return the values of a stored report in which one of 14 experiments was run."""
    (path,) = (path for path in stored_reports() if path.stem == "connect_four_td_full_growth")
    return json.loads(path.read_text("utf-8"))


def test_a_page_counts_and_shows_the_claims_of_the_experiments_that_were_run(undrawn, values_of_one_experiment):
    page = html_page(values_of_one_experiment)
    assert "<p>Profile full: 1 matched; 13 of 14 experiments not run. <code>" in page
    run = {one["name"] for one in values_of_one_experiment["experiments"] if one["stages"]["complete"]}
    assert run == {"growth"}
    for one in values_of_one_experiment["experiments"]:
        for claim in one["claims"]:
            assert (f"<td>{escape(claim['text'])}</td>" in page) == (one["name"] in run)


def test_a_page_lists_the_experiments_that_were_not_run_with_their_commands(undrawn, values_of_one_experiment):
    _, _, listed = html_page(values_of_one_experiment).partition("<h2>Not run</h2>")
    for one in values_of_one_experiment["experiments"]:
        assert (f"<code>{one['command']}</code></td>" in listed) == (one["name"] != "growth")


def test_an_experiment_that_a_profile_does_not_have_is_listed_with_that_reason(undrawn):
    (path,) = (path for path in stored_reports() if path.stem == "abalone")
    assert "<td>Abalone from nothing and after a warm start</td>" in (page := page_of(path))
    assert "<td>not part of profile quick</td>" in page


@pytest.mark.slow
def test_the_nth_judgement_of_all_seeds_is_one_row_of_the_training_though_its_place_differs(report, undrawn):
    seeds = (((100, 0.5), (211, 0.3)), ((104, 0.7), (213, 0.1)))
    report["experiments"][0]["trainings"] = [
        {"arm": "an arm", "seed": seed, "points": [{"games": games, "value": value} for games, value in points]}
        for seed, points in enumerate(seeds)
    ]
    cells = [re.findall(r">([^<]+)</td>", row) for row in html_page(report).splitlines() if "<td>an arm</td>" in row]
    assert cells == [["an arm", "102", "0.600"], ["an arm", "212", "0.200"]]


@pytest.mark.slow
def test_a_report_of_an_earlier_release_has_a_page_without_the_parts_that_it_lacks(report):
    page = html_page(report)
    assert "<h3>Placements by seat</h3>" in page
    rows = [row for one in report["experiments"] for arm in one["arms"] for row in arm["rows"]]
    for one in report["experiments"]:
        del one["behaviour"]
    for row in rows:
        row["cpu_ms_per_move"] = [12_345.6, 0.0]
    assert html_page(report).count("12,345.6 : 0.0</td>") == len(rows)
    for row in rows:
        del row["cpu_ms_per_move"]
    earlier = html_page(report)
    assert "<h3>Placements by seat</h3>" not in earlier
    assert "12,345.6" not in earlier
    assert earlier.count("<svg") == len(report["experiments"])
