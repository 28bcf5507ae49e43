"""Priors of the champion beside the recorded visits of a replay: services away, hidden hands, keyboard and refusals."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, Route, expect

import games
from games.notation import legal_names
from games.positions import replay
from zerofleet.contracts.records import encode_record
from zerofleet.contracts.records.samples import random_game
from zerofleet.storage.game_log import GameLog

Opener = Callable[..., Page]
Keeper = Callable[[Page, str], None]

NUMBER = 5
UID = "5ca1" + "ab" * 14


def store(root: Path, game: str) -> str:
    """Store a random game in a run; return its uid."""
    record = encode_record(random_game(games.make(game), NUMBER), worker_id="worker-0", uid=UID, finished_at_ms=0)
    with GameLog.open(root / "replay", writer=True) as log:
        log.append([(UID, record)])
    return UID


@pytest.fixture(scope="module")
def replay_with_champion(runs: Path, run_with_champion: str) -> str:
    """Return the address of the replay of a random game of tic-tac-toe, in a stopped run."""
    return f"/runs/{run_with_champion}/games/{store(runs / run_with_champion, 'tic_tac_toe')}"


def shares(page: Page, column: int) -> list[float]:
    cells = page.locator(f"#search tbody tr td:nth-child({column})").all_text_contents()
    return [float(text.replace("%", "").strip()) for text in cells]


def prior_column(page: Page) -> Locator:
    return page.get_by_role("columnheader", name="prior", exact=True)


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_a_replay_shows_the_priors_of_the_champion_beside_the_visits_by_keyboard(
    open_page: Opener, keep: Keeper, replay_with_champion: str, width: int, scheme: str
) -> None:
    page = open_page(f"{replay_with_champion}#ply=0", width=width, scheme=scheme)
    button, about = page.get_by_role("button", name="Priors of the model"), page.locator("#priors-about")
    button.focus()
    page.keyboard.press("Enter")
    expect(about).to_have_text("Priors of champion 1")
    expect(button).to_be_focused()
    expect(prior_column(page)).to_have_count(1)
    assert len(shares(page, 5)) == 9
    assert sum(shares(page, 5)) == pytest.approx(100, abs=5)  # rounded
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert Axe().run(page).response["violations"] == []
    keep(page, "replay-priors")

    page.keyboard.press("ArrowRight")
    expect(prior_column(page)).to_have_count(0)
    expect(about).to_have_text("")
    page.keyboard.press("ArrowLeft")
    expect(prior_column(page)).to_have_count(1)
    page.keyboard.press("End")
    expect(button).to_be_hidden()


def test_an_answer_for_a_position_that_was_left_changes_nothing_on_the_next_one(
    open_page: Opener, replay_with_champion: str
) -> None:
    page = open_page(f"{replay_with_champion}#ply=0")
    button, about = page.get_by_role("button", name="Priors of the model"), page.locator("#priors-about")
    held: list[Route] = []
    page.route("**/priors/0", lambda route: held.append(route))  # noqa: PLW0108 - a builtin is refused
    with page.expect_request("**/priors/0"):
        button.click()
    expect(button).to_have_attribute("aria-disabled", "true")
    assert Axe().run(page).response["violations"] == []
    page.keyboard.press("ArrowRight")
    with page.expect_response("**/priors/0"):
        held.pop().continue_()
    expect(button).not_to_have_attribute("aria-disabled", "true")
    expect(about).to_have_text("")
    expect(prior_column(page)).to_have_count(0)
    page.keyboard.press("ArrowLeft")
    expect(about).to_have_text("Priors of champion 1")


def test_a_move_without_recorded_visits_is_named_beside_the_button(open_page: Opener, replay_with_champion: str) -> None:
    page = open_page("/")
    moves = [{"move": move, "prior": prior} for move, prior in (("b2", 0.5), ("pass", 0.25), ("a1", 0.242), ("far", 0.008))]
    moves += [
        {"move": f"{column}{row}", "prior": 0.0} for column in "abc" for row in "123" if f"{column}{row}" not in ("a1", "b2")
    ]
    answer = {"source": "champion <b>7</b>", "player": 1, "moves": moves}
    page.route("**/priors/0", lambda route: route.fulfill(json=answer))
    page.goto(f"{replay_with_champion}#ply=0")
    page.get_by_role("button", name="Priors of the model").click()
    text = "Priors of champion <b>7</b>; moves that are not in the table: pass 25 %"
    expect(page.locator("#priors-about")).to_have_text(text)


def test_priors_of_a_card_game_are_those_of_the_cards_of_the_player_to_move(
    open_page: Opener, keep: Keeper, runs: Path, untrained: Callable[[Path, str], Path]
) -> None:
    root = untrained(runs, "take_six")
    uid = store(root, "take_six")
    page = open_page("/")
    with page.expect_response("**/priors/3") as answered:
        page.goto(f"/runs/{root.name}/games/{uid}#ply=3")
        page.get_by_role("button", name="Priors of the model").click()
    expect(page.locator("#priors-about")).to_have_text(re.compile(r"Priors of champion 1; moves .* table: \d+@\d \d"))
    game = games.make("take_six")
    state = replay(game, random_game(game, NUMBER).moves.tolist()[:3], NUMBER)
    answer = answered.value.json()
    assert set(answer) == {"source", "player", "moves"}
    assert {one["move"] for one in answer["moves"]} == set(legal_names(game, state))
    listed = {one["move"]: one["prior"] for one in answer["moves"]}
    shown = page.locator("#search tbody tr td:first-child").all_text_contents()
    assert shares(page, 5) == pytest.approx([100 * listed[move] for move in shown], abs=0.6)  # rounded
    keep(page, "replay-priors-cards")


def test_a_run_whose_model_is_damaged_shows_the_reason(open_page: Opener, golden: ModuleType) -> None:
    page = open_page(f"/runs/golden/games/{golden.uid(3)}#ply=0", refusal="the server responded with a status of")
    page.get_by_role("button", name="Priors of the model").click()
    expect(page.locator("#priors-about")).to_have_class(re.compile("error-text"))
    expect(page.locator("#priors-about")).to_contain_text(re.compile("model|version"))
    expect(page.get_by_role("button", name="Priors of the model")).not_to_have_attribute("aria-disabled", "true")
    assert Axe().run(page).response["violations"] == []
    page.keyboard.press("ArrowRight")
    expect(page.locator("#priors-about")).to_have_text("")
