"""Live regions of the pages that follow a run: a text is set when it changes, and not again at every event."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

Opener = Callable[..., Page]

RECORD = """
window.told = [];
new MutationObserver((records) => {
  for (const { target, addedNodes } of records) {
    const region = target.closest?.("[role=status], [aria-live]");
    if (region && addedNodes.length) told.push([region.id, [...addedNodes].map((node) => node.textContent).join("")]);
  }
}).observe(document, { childList: true, subtree: true });
"""


def follow(page: Page, what: str, kind: str, *states: dict[str, Any]) -> None:
    """Open a page whose stream has these states and then breaks off."""
    lines = [f"event: {kind}\ndata: {json.dumps(state)}\n\n" for state in states]
    body = "retry: 600000\n\n" + "".join(lines)
    events = "cluster/events?*" if kind == "cluster" else "events"
    page.route(f"**/api/v1/runs/golden/{events}", lambda route: route.fulfill(content_type="text/event-stream", body=body))
    page.add_init_script(RECORD)
    page.goto(f"/runs/golden/{what}")
    expect(page.locator("#state")).to_have_text("reconnecting…")


def told(page: Page, region: str) -> list[str]:
    """Return the texts that a live region received from the script of the page."""
    return [text for name, text in page.evaluate("told") if name == region and text != "reading…"]


def test_the_overview_tells_that_a_run_is_alive_once_and_shows_its_time_elsewhere(open_page: Opener) -> None:
    page = open_page("/api")
    state = {**page.request.get("/api/v1/runs/golden/overview").json(), "is_live": True}
    follow(page, "overview", "overview", *({**state, "elapsed_s": seconds} for seconds in (11.0, 12.0, 13.0)))
    assert told(page, "state") == ["alive", "reconnecting…"]
    expect(page.locator("#elapsed")).to_have_text("13 s since the start")


def test_the_cluster_tells_the_part_with_the_largest_share_once_and_shows_the_share_elsewhere(open_page: Opener) -> None:
    page = open_page("/api")
    state = {**page.request.get("/api/v1/runs/golden/cluster").json(), "is_live": True, "is_near": True}
    part = {**state["parts"][0], "name": "trainer"}
    shares = [{"measured_first": "trainer", "parts": [{**part, "measured": share}]} for share in (0.81, 0.82, 0.83)]
    follow(page, "cluster", "cluster", *({**state, **share} for share in shares))
    assert told(page, "state") == ["alive", "reconnecting…"]
    assert len(told(page, "first")) == 1
    expect(page.locator("#first")).to_contain_text("Nearest to its capacity as measured: trainer")
    expect(page.locator("#used")).to_have_text(", of which 83 % is used now.")
