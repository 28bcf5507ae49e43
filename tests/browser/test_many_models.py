"""Page of a run with many versions: a table of one page, older ones by a button, champions alone, and their lineage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect

from zerofleet.storage.model_store import DirectoryStore
from zerofleet.testing.many_models import publish_chain

Opener = Callable[..., Page]
Keeper = Callable[[Page, str], None]
ROWS = "#models tbody tr"


@pytest.fixture(scope="module")
def many(copied: Callable[[str], Path]) -> str:
    """Return the name of a run of 130 versions, of which 1, 2 and 60 were champion."""
    root = copied("many")
    publish_chain(root / "models", 130, champions={60})
    return root.name


def test_older_versions_are_added_by_a_button(open_page: Opener, many: str) -> None:
    page = open_page(f"/runs/{many}/models")
    expect(page.locator("#count")).to_have_text("100 of 130 versions")
    expect(page.locator(ROWS)).to_have_count(100)
    expect(page.locator(ROWS).first).to_contain_text("130")
    page.get_by_role("button", name="Older versions").click()
    expect(page.locator("#count")).to_have_text("130 of 130 versions")
    expect(page.locator(ROWS)).to_have_count(130)
    expect(page.get_by_role("button", name="Older versions")).to_be_hidden()
    expect(page.locator("#models")).to_be_focused()  # the button is gone
    row = page.locator("#models").get_by_role("button", name="9", exact=True)
    row.press("Enter")
    expect(page.locator("#detail h2").first).to_have_text("Version 9")
    expect(row).to_be_focused()


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_a_version_that_is_chosen_far_down_the_list_is_in_sight(
    open_page: Opener, keep: Keeper, many: str, width: int, height: int
) -> None:
    page = open_page(f"/runs/{many}/models")
    page.set_viewport_size({"width": width, "height": height})
    for version in ("100", "98"):  # the second one while the first is shown
        row = page.locator("#models").get_by_role("button", name=version, exact=True)
        row.click()
        heading = page.locator("#detail").get_by_role("heading", name=f"Version {version}")
        expect(heading).to_be_in_viewport()
        expect(row).to_be_focused()
        if width > 960:
            expect(row).to_be_in_viewport()
    page.locator("#detail").get_by_role("button", name="97", exact=True).click()
    expect(page.get_by_role("heading", name="Version 97")).to_be_in_viewport()
    assert Axe().run(page).response["violations"] == []
    keep(page, "models-chosen")


def test_an_address_of_another_version_that_is_written_by_hand_shows_it(open_page: Opener, many: str) -> None:
    page = open_page(f"/runs/{many}/models#v9")
    heading = page.locator("#detail h2").first
    expect(heading).to_have_text("Version 9")
    page.evaluate("location.hash = '#v8'")
    expect(heading).to_have_text("Version 8")
    page.go_back()
    expect(heading).to_have_text("Version 9")


def test_champions_alone_are_found_among_all_versions(open_page: Opener, many: str) -> None:
    page = open_page(f"/runs/{many}/models")
    page.get_by_label("champions only").check()
    expect(page.locator("#count")).to_have_text("3 of 3 champions")
    expect(page.locator(ROWS)).to_have_count(3)


def test_older_versions_are_not_added_to_champions_that_are_still_read(open_page: Opener, many: str) -> None:
    page = open_page(f"/runs/{many}/models")
    expect(page.get_by_role("button", name="Older versions")).to_be_visible()
    held: list[Route] = []
    page.route("**/models?*champions=1*", lambda route: held.append(route))  # noqa: PLW0108 - a builtin is refused
    with page.expect_request("**/models?*champions=1*"):
        page.get_by_label("champions only").check()
    expect(page.get_by_role("button", name="Older versions")).to_be_hidden()
    expect(page.locator(ROWS)).to_have_count(100)
    held[0].continue_()
    expect(page.locator(ROWS)).to_have_count(3)


def test_a_version_that_is_not_in_the_table_is_opened_by_its_address_with_lineage_and_comparisons(
    open_page: Opener, many: str
) -> None:
    page = open_page(f"/runs/{many}/models#v9")
    detail = page.locator("#detail")
    expect(detail.locator("h2").first).to_have_text("Version 9")
    expect(detail).to_contain_text("Trained from 8 ← 7 ← 6 ← 5 ← 4 ← 3 ← 2")
    expect(detail.get_by_role("link", name="version 60 (champion)")).to_be_visible()
    detail.get_by_role("button", name="8", exact=True).click()
    expect(detail.locator("h2").first).to_have_text("Version 8")


def test_a_comparison_offers_a_champion_that_is_older_than_the_versions_of_its_choices(
    open_page: Opener, copied: Callable[[str], Path]
) -> None:
    root = copied("restored")
    publish_chain(root / "models", 8, champions={6, 7})
    DirectoryStore(root / "models").write_champion("tic_tac_toe", 2, epoch=9, reason="rollback")
    page = open_page("/runs/restored/ladder")
    page.route("**/models?limit=500", lambda route: route.continue_(url=route.request.url.replace("500", "3")))
    page.goto("/runs/restored/compare")
    expect(page.locator("select[name=second]")).to_have_value("2")
    expect(page.locator("select[name=first]")).to_have_value("1")
    assert page.locator("select[name=first] option").all_inner_texts() == ["8", "7", "6", "2 ★", "1"]


def test_a_comparison_offers_the_champion_and_takes_any_version_of_the_address(open_page: Opener, many: str) -> None:
    page = open_page(f"/runs/{many}/compare")
    expect(page.locator("select[name=second]")).to_have_value("60")
    expect(page.locator("select[name=first]")).to_have_value("2")
