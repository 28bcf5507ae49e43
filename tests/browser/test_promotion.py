"""Promotion and rollback by clicks, on a stopped run whose services are started for each change."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect

from games.core import make
from trainer.export import Lineage, export_network
from trainer.network import Network
from zerofleet.presets import preset
from zerofleet.storage.model_store import DirectoryStore

Opener = Callable[..., Page]
Keeper = Callable[[Page, str], None]
MODEL = "tic_tac_toe"
REFUSAL = "only an operator may do this: enter the operator's token at /login"


def violations(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {node['html'][:120]}" for one in found for node in one["nodes"]]


@pytest.fixture
def crowned(copied: Callable[..., Path], run_with_champion: str) -> Path:
    """Return a stopped run whose version 1 is champion, with a version 2 that no inference server has seen; it stays."""
    root = copied("crowned", of=run_with_champion, is_numbered=True)
    game, chosen = make(MODEL), preset(make(MODEL), "tiny")
    torch.manual_seed(1)
    network = Network(game.spec(), chosen.network)
    assert export_network(DirectoryStore(root / "models"), game, network, chosen.network, lineage=Lineage()) == 2
    return root


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_a_version_is_promoted_and_rolled_back_after_confirmations(
    open_page: Opener, keep: Keeper, crowned: Path, width: int, scheme: str
) -> None:
    page = open_page(f"/runs/{crowned.name}/models#v2", width=width, scheme=scheme)
    now, about, dialog = page.locator("#champion-now"), page.locator("#champion-about"), page.locator("#crown")
    expect(now).to_have_text(re.compile(r"^Version 1, since .* UTC: the only one\.$"))
    expect(page.locator("#rollback")).to_be_hidden()  # there is no earlier champion
    promote = page.get_by_role("button", name="Promote version 2…")
    promote.click()
    expect(page.locator("#crown-question")).to_have_text("Promote version 2?")
    expect(dialog).to_contain_text("version 1, the only one")
    expect(dialog).to_contain_text("The run is stopped: a gatekeeper and an inference server are started")
    expect(page.get_by_label("Promote it even if no inference server can load it")).not_to_be_checked()
    expect(page.locator("#crown-risk")).to_contain_text("stops the whole run")
    assert violations(page) == []
    keep(page, "promotion")
    page.get_by_role("button", name="Back").click()
    expect(promote).to_be_enabled()
    assert DirectoryStore(crowned / "models").champion(MODEL).version == 1

    promote.click()
    page.get_by_label("Reason").fill("better endgames")
    page.get_by_role("button", name="Promote", exact=True).click()
    expect(about).to_have_text("Version 2 is champion.")
    expect(now).to_contain_text("better endgames")
    expect(page.locator("#models tr.champion, #models tr.chosen").first).to_contain_text("champion ★")
    expect(promote).to_have_count(0)  # the champion has no button
    assert DirectoryStore(crowned / "models").champion(MODEL).version == 2
    assert violations(page) == []
    keep(page, "promoted")

    page.get_by_role("button", name="Roll back to version 1…").click()
    expect(page.locator("#crown-question")).to_have_text("Roll back to version 1?")
    expect(page.locator("#crown-risk")).to_be_hidden()
    page.get_by_role("button", name="Roll back", exact=True).click()
    expect(about).to_have_text("Version 1 is champion.")
    expect(now).to_contain_text("rollback: by hand")
    assert DirectoryStore(crowned / "models").champion(MODEL).version == 1


def test_a_refusal_of_the_gatekeeper_is_shown_and_nothing_changes(open_page: Opener, crowned: Path) -> None:
    page = open_page(f"/runs/{crowned.name}/models#v2", refusal="409 (Conflict)")
    page.get_by_role("button", name="Promote version 2…").click()
    (crowned / "models" / MODEL / "2" / "model.pt").write_bytes(b"")
    page.get_by_role("button", name="Promote", exact=True).click()
    expect(page.locator("#champion-about.error-text")).to_contain_text("was truncated or changed")
    expect(page.locator("#champion-now")).to_contain_text("Version 1, since")
    expect(page.get_by_role("button", name="Promote version 2…")).to_be_enabled()


def test_a_reader_sees_no_buttons_and_how_to_become_an_operator(open_page: Opener) -> None:
    def reader(route: Route) -> None:
        route.fulfill(json={"is_operator": False, "refusal": REFUSAL, "csrf_token": ""})

    page = open_page("/api")
    page.route("**/api/v1/session", reader)
    page.goto("/runs/golden/models#v1")
    expect(page.locator("#champion-about")).to_have_text(f"O{REFUSAL[1:]}.")
    expect(page.get_by_role("heading", name="Version 1", exact=True)).to_be_visible()
    expect(page.locator("#rollback")).to_be_hidden()
    expect(page.locator("button.crowns")).to_have_count(0)
    assert violations(page) == []
    assert (
        json.loads(page.evaluate("fetch('/api/v1/runs/golden/champion').then((answer) => answer.text())"))["rollback_to"] == 1
    )
