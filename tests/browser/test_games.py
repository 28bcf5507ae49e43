"""Games in a browser: one of a user's own package, hidden hands, a drawn position, and perfect play beside the command."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Response, Route, expect

import games
from games.positions import encode_for, new_state
from zerofleet.cli import main
from zerofleet.storage.runs import RunDirectory

Opener = Callable[..., Page]
Keeper = Callable[[Page, str], None]

SEED = 7_018_734_529  # of the deal: a number that occurs in no payload by chance
SMALLEST_TARGET_PX = 24  # of WCAG 2.2, success criterion 2.5.8
SMALLEST_TELLTALE = 31  # smaller numbers occur as rounds, points and places
SHOWN = """() => {
  const places = new Set(["x", "y", "cx", "cy", "r", "viewBox", "points", "d", "width", "height", "stroke-width", "src"]);
  const texts = [document.title];
  const walk = (node) => {
    if (node.nodeType === Node.TEXT_NODE) texts.push(node.data);
    for (const { name, value } of node.attributes ?? []) if (!places.has(name)) texts.push(value);
    if ("value" in node) texts.push(String(node.value));
    node.childNodes.forEach(walk);
  };
  walk(document.documentElement);
  return texts.join("\\n");
}"""

OVERLAY = """(cells) => cells.map((cell) =>
  [cell.dataset.key, cell.getAttribute("aria-label"), cell.classList.contains("further")])"""


def play_page(open_page: Opener, game: str, width: int = 1440) -> Page:
    """Return the page of play, when it has read the games."""
    page = open_page(f"/play?game={game}", width=width)
    expect(page.locator("#notice")).to_be_hidden()
    return page


def begin(page: Page, **values: str) -> None:
    for name, value in values.items():
        page.locator(f"#begin [name={name}]").fill(value)
    page.get_by_role("button", name="Begin").click()


def test_a_game_of_ones_own_package_is_played_by_its_list_of_moves(open_page: Opener, keep: Keeper) -> None:
    page = play_page(open_page, "nim")
    begin(page)
    state, choices = page.locator("#state"), page.locator("#choices button")
    for played in range(0, 16, 2):  # each move takes at least one of 16 sticks
        expect(state).to_have_text(re.compile("your move|over"))
        if state.text_content() == "over":
            break
        expect(page.locator("#moves li")).to_have_count(played)
        expect(page.locator("#list")).to_have_attribute("open", "")
        assert page.locator("#frame .cell").count() == 0
        if played == 0:
            keep(page, "play-own-game")
            assert choices.all_text_contents() == ["a1", *(f"b{n}" for n in (1, 2, 3)), *(f"c{n}" for n in range(1, 6))] + [
                f"d{n}" for n in range(1, 8)
            ]
        choices.last.click()
        page.wait_for_function(
            "(before) => document.querySelectorAll('#moves li').length > before"
            " && /your move|over/.test(document.getElementById('state').textContent)",
            arg=played,
        )
    expect(state).to_have_text("over")
    expect(page.locator("#turn")).to_have_text(re.compile("You win|wins"))
    page.wait_for_function("document.getElementById('board').naturalWidth > 0")  # the text of the game, as a picture


def numbers(found: object) -> Iterator[int]:
    """Yield every number of a JSON value except those of the cells' places."""
    if isinstance(found, dict):
        for name, value in found.items():
            yield from numbers(name)
            yield from numbers(None if name in {"x", "y", "radius"} else value)
    elif isinstance(found, list):
        for one in found:
            yield from numbers(one)
    else:
        yield from map(int, re.findall(r"\d+", str(found)))


def hand(drawn: str, seat: int) -> set[int]:
    """Return the cards of a player from the drawing that this player sees."""
    line = drawn.split(f"player {seat + 1}:")[1].splitlines()[0]
    return {int(card) for card in re.findall(r"\d+", line.split("|")[1])}


def told(body: str, kind: str) -> set[int]:
    """Return the numbers that the body of an answer tells."""
    if "json" in kind:
        return set(numbers(json.loads(body)))
    return {int(number) for text in re.findall(r">([^<]*)<", body) for number in re.findall(r"\d+", text)}


@dataclass(frozen=True)
class Answer:
    """Answer of the server, read on its way to the page: Chromium forgets pictures that a page replaced."""

    turn: int
    url: str
    kind: str
    body: bytes


@pytest.mark.parametrize("game", ["take_six", "connect_four", "tic_tac_toe"])
def test_a_finger_can_choose_a_cell_on_a_narrow_window(open_page: Opener, keep: Keeper, game: str) -> None:
    page = play_page(open_page, game, width=360)
    begin(page, seat="1")
    page.wait_for_selector("#frame .cell")
    sizes = page.locator("#frame .cell").evaluate_all("all => all.map((one) => one.getBoundingClientRect().width)")
    assert min(sizes) >= SMALLEST_TARGET_PX
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    keep(page, f"play-narrow-{game}")
    over = page.evaluate("['#board', '#frame .cells'].map((one) => document.querySelector(one).getBoundingClientRect().width)")
    assert over[0] == pytest.approx(over[1], abs=2.5)  # the layer covers the picture
    assert Axe().run(page).response["violations"] == []
    page.locator("#frame .cell").last.click()  # at the far end of the picture; a card may ask for a row as well
    page.wait_for_selector("#moves li, #frame .picked", state="attached")


@pytest.mark.parametrize("seat", [2])
def test_no_foreign_card_of_take_six_occurs_in_the_page_or_in_an_answer(open_page: Opener, keep: Keeper, seat: int) -> None:
    game = games.make("take_six")
    players, dealt = game.spec().num_players, new_state(game, SEED)
    hands = [hand(game.draw_for(dealt, own), own) for own in range(players)]
    foreign = {card for own, hand in enumerate(hands) if own != seat - 1 for card in hand if card >= SMALLEST_TELLTALE}
    assert len(foreign) > 8

    page = play_page(open_page, "take_six")
    answers: list[Answer] = []
    texts: list[tuple[int, str]] = []
    opened: dict[int, set[int]] = {0: set()}

    def read(route: Route) -> None:
        begins = urlparse(route.request.url).path == "/api/v1/tables"
        answer = route.fetch(post_data=seeded(route)) if begins else route.fetch()
        answers.append(Answer(len(opened) - 1, answer.url, answer.headers["content-type"], answer.body()))
        route.fulfill(response=answer)

    page.route("**/api/**", read)
    begin(page, seat=str(seat))
    for turn in range(3):
        expect(page.locator("#state")).to_have_text("your move")
        expect(page.locator("#moves li")).to_have_count(players * turn)
        page.wait_for_selector("#frame .cell")
        opened[turn] = {int(re.findall(r"\d+", move)[1]) for move in page.locator("#moves li").all_text_contents()}
        texts.append((turn, page.evaluate(SHOWN)))
        if turn == 1:
            keep(page, "play-take-six")
        opened[turn + 1] = set()  # later answers belong to the next round
        if turn == 0:
            page.locator("#list summary").click()  # it stays open
        page.locator("#choices button").first.click()
    page.wait_for_function("(least) => document.querySelectorAll('#moves li').length >= least", arg=3 * players)
    opened[3] = {int(re.findall(r"\d+", move)[1]) for move in page.locator("#moves li").all_text_contents()}
    page.unroute_all(behavior="wait")  # answers on their way
    assert [len(cards) for cards in opened.values()] == [0, players, 2 * players, 3 * players]
    assert opened[3] & foreign  # the search would find them

    assert len(answers) > 9
    table = next(json.loads(answer.body)["id"] for answer in answers if urlparse(answer.url).path == "/api/v1/tables")
    secrets = [encode_for(game, dealt, own).tobytes() for own in range(players) if own != seat - 1] + [dealt.tobytes()]
    for answer in answers:  # the digits of the table's id are random
        assert not told(answer.body.decode().replace(table, ""), answer.kind) & foreign - opened[answer.turn], answer.url
        for secret in secrets:
            for written in (secret, secret.hex().encode(), base64.b64encode(secret), str(SEED).encode()):
                assert written not in answer.body, answer.url
    for turn, text in texts:
        assert not set(map(int, re.findall(r"\d+", text.replace(table, "")))) & foreign - opened[turn]


def seeded(route: Route) -> str:
    return json.dumps({**route.request.post_data_json, "seed": SEED})


def with_seed(route: Route) -> None:
    route.continue_(post_data=seeded(route))


WORDS = """() => {
  const shown = document.querySelector("main").cloneNode(true);
  for (const node of shown.querySelectorAll("td.right, #about, input, option")) node.remove();
  const texts = [...shown.querySelectorAll("*")].flatMap((node) => [node.ariaLabel, node.title, node.dataset.key]);
  const walker = document.createTreeWalker(shown, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) texts.push(walker.currentNode.data);
  return texts.filter(Boolean).join("\\n");
}"""


def cards_told(response: Response) -> set[int]:
    """Return the cards that an answer about a tree tells: the numbers of its texts, not its counts."""
    body = response.text()
    if "svg" in response.headers["content-type"]:
        return told(body, "image/svg+xml")
    found: list[str] = []
    for line in body.splitlines():
        if (line := line.removeprefix("data: ")).startswith("{"):
            json.loads(line, object_hook=lambda fields: found.extend(texts_of(fields)) or fields)
    return {int(number) for text in found for number in re.findall(r"\d+", re.sub(r"takes \d+ points?", "", text))}


def texts_of(fields: dict[str, object]) -> list[str]:
    """Return the texts among the values of an object, its id excepted."""
    values = [one for name, value in fields.items() if name != "id" for one in (value if isinstance(value, list) else [value])]
    return [value for value in values if isinstance(value, str)]


@pytest.mark.parametrize("width", [1440, 390])
def test_the_tree_of_take_six_shows_figures_over_worlds_and_no_foreign_card(
    open_page: Opener, keep: Keeper, width: int
) -> None:
    game = games.make("take_six")
    dealt = new_state(game, SEED)
    hands = [hand(game.draw_for(dealt, own), own) for own in range(game.spec().num_players)]
    foreign = {card for held in hands[1:] for card in held if card >= SMALLEST_TELLTALE}
    page = open_page("/play?game=take_six", width=width)
    expect(page.locator("#notice")).to_be_hidden()
    page.route("**/api/v1/tables", with_seed)
    answers: list[Response] = []
    begin(page, seat="1")
    expect(page.locator("#state")).to_have_text("your move")
    page.on("response", lambda response: answers.append(response) if "/api/v1/studies" in response.url else None)
    page.locator("#to-tree").click()
    expect(page.locator("#state")).to_have_text("searched")
    expect(page.locator("#root-alone")).to_contain_text("invents")
    expect(page.locator("#origin")).to_contain_text("your turn in the game")
    for hidden in ("#moves-field", "#deeper", "#to-play"):
        expect(page.locator(hidden)).to_be_hidden()
    headings = page.locator("#nodes th").all_text_contents()
    assert headings == ["move", "N", "Q", "P", "U", "±", "worlds", "visits above prior"]
    page.locator("#nodes button.opener").first.click()
    outcome = page.locator("#nodes td", has_text=re.compile("^takes|the game ends")).first
    expect(outcome).to_be_visible()
    page.wait_for_function("document.getElementById('board').naturalWidth > 0")
    keep(page, "tree-take-six")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert Axe().run(page).response["violations"] == []
    shown = set(map(int, re.findall(r"\d+", page.evaluate(WORDS))))
    assert hands[0] <= shown  # the text of the position
    assert not shown & foreign
    kinds = {response: urlparse(response.url).path.rpartition("/")[2] for response in answers}
    assert set(kinds.values()) == {"studies", "events", "node", "board"}
    for response in (one for one, kind in kinds.items() if kind != "events"):  # whose body Chromium drops; tests/ui reads it
        assert not cards_told(response) & foreign, response.url
        assert str(SEED).encode() not in response.body()


def test_a_drawn_position_is_played_on_from(open_page: Opener, keep: Keeper) -> None:
    page = play_page(open_page, "connect_four")
    page.get_by_text("Set-up").click()
    page.get_by_role("button", name="Draw the position").click()
    found, stone = page.locator("#found"), page.locator("#drawing-frame .cell")
    expect(stone).to_have_count(42)
    drawn = {"d1": 1, "d2": 2, "d3": 1, "e1": 2, "c1": 1}
    for cell, player in drawn.items():
        for _ in range(player):
            page.locator(f'#drawing-frame .cell[data-key="{cell}"]').click()
    expect(page.locator("#stones")).to_have_text("player 1: 3 stones, player 2: 2 stones")
    page.get_by_role("button", name="Use this position").click()
    expect(found).to_have_text("5 moves lead to this position; player 2 is to move. Begin starts there.")
    keep(page, "play-drawing")
    assert Axe().run(page).response["violations"] == []
    moves = page.locator("[name=moves]").input_value().split()
    assert sorted(moves) == sorted(drawn)

    page.locator('#drawing-frame .cell[data-key="g5"]').click()  # in the air
    expect(found).to_be_empty()
    page.get_by_role("button", name="Use this position").click()
    expect(found).to_contain_text("No sequence of legal moves reaches this position")
    begin(page, seat="2")
    expect(page.locator("#state")).to_have_text("your move")
    assert [text.split()[1] for text in page.locator("#moves li").all_text_contents()] == moves
    expect(page.locator("#drawing")).to_be_hidden()

    page.get_by_role("button", name="Draw the position").click()
    page.locator("[name=game]").select_option("take_six")
    expect(found).to_contain_text("Positions of take_six cannot be drawn: the game has no rules that read a drawing")
    expect(stone).to_have_count(0)
    expect(page.get_by_role("button", name="Use this position")).to_be_disabled()


def test_every_seat_of_a_run_with_more_players_than_usual_can_be_taken(open_page: Opener, runs: Path) -> None:
    RunDirectory.create_or_open(runs / "four-players", "take_six", {"players": "4"}, preset="tiny", seed=1).close()
    page = open_page("/play?run=four-players")
    expect(page.locator("#notice")).to_be_hidden()
    begin(page, seat="4")
    expect(page.locator("#turn")).to_have_text("You are player 4 against random.")


def draw_page(open_page: Opener, game: str, width: int) -> Page:
    """Return the page of play with the board to draw on."""
    page = play_page(open_page, game, width)
    page.get_by_text("Set-up").click()
    page.get_by_role("button", name="Draw the position").click()
    expect(page.locator("#drawing-frame .cell").first).to_be_visible()
    return page


def put(page: Page, cell: str, clicks: int = 1) -> None:
    """Click a cell of the drawing."""
    for _ in range(clicks):
        page.locator(f'#drawing-frame .cell[data-key="{cell}"]').click()


@pytest.mark.parametrize("width", [1440, 390])
def test_a_drawn_position_of_othello_is_played_saved_and_loaded(open_page: Opener, keep: Keeper, width: int) -> None:
    page = draw_page(open_page, "othello", width)
    found, use = page.locator("#found"), page.get_by_role("button", name="Use this position")
    for cell, player in {"d4": 2, "e4": 1, "d5": 1, "e5": 1, "f5": 1}.items():
        put(page, cell, player)
    use.click()
    expect(found).to_have_text(re.compile("^5 discs are those after the first move, of player 1; let player 2 move"))
    page.get_by_label("Player to move").fill("2")
    use.click()
    expect(found).to_have_text("The game can begin at this position; player 2 is to move. Begin starts there.")
    keep(page, "play-drawing-othello")
    assert Axe().run(page).response["violations"] == []
    begin(page, seat="2")
    expect(page.locator("#state")).to_have_text("your move")
    expect(page.locator("#drawing")).to_be_hidden()
    expect(page.locator("#moves li")).to_have_count(0)
    page.locator('#frame .cell[data-key="f6"]').click()
    expect(page.locator("#moves li")).to_have_count(2)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#moves li")).to_have_count(0)
    expect(page.locator("#choices button")).to_have_text(["f4", "d6", "f6"])

    with page.expect_download() as saved:
        page.get_by_role("button", name="Save", exact=True).click()
    kept = json.loads(saved.value.path().read_text())
    assert kept["position"] == {"stones": {"d4": 2, "e4": 1, "d5": 1, "e5": 1, "f5": 1}, "player": 2}
    page.reload()
    expect(page.locator("#notice")).to_be_hidden()
    page.locator("#load").set_input_files(saved.value.path())
    expect(page.locator("#choices button")).to_have_text(["f4", "d6", "f6"])


@pytest.mark.parametrize("width", [1440, 390])
def test_a_drawn_position_of_abalone_begins_with_the_marbles_of_the_start(open_page: Opener, keep: Keeper, width: int) -> None:
    page = draw_page(open_page, "abalone", width)
    found, use = page.locator("#found"), page.get_by_role("button", name="Use this position")
    use.click()
    expect(found).to_contain_text("Player 1 has 0 marbles, expected 9 to 14")
    page.get_by_role("button", name="Starting position").click()
    expect(page.locator("#stones")).to_have_text("player 1: 14 stones, player 2: 14 stones")
    put(page, "I5")  # of player 2: empty now
    put(page, "A1", 2)  # of player 1: of player 2, then empty
    put(page, "E5", 2)
    put(page, "D5")
    expect(page.locator("#stones")).to_have_text("player 1: 14 stones, player 2: 14 stones")
    use.click()
    expect(found).to_have_text("The game can begin at this position; player 1 is to move. Begin starts there.")
    keep(page, "play-drawing-abalone")
    assert Axe().run(page).response["violations"] == []
    begin(page)
    expect(page.locator("#state")).to_have_text("your move")
    keep(page, "play-drawn-abalone")
    page.locator('#frame .cell[data-key="C4"]').click()
    page.locator('#frame .cell[data-key="E6"]').click()  # pushes nothing: the line C4, D5 steps to E6
    expect(page.locator("#moves li")).to_have_count(2)
    with page.expect_navigation():
        page.locator("#to-tree").click()


def test_the_overlay_of_the_solver_equals_the_answer_of_the_command(
    open_page: Opener, keep: Keeper, capsys: pytest.CaptureFixture[str]
) -> None:
    moves = ",".join("ddddddcccccceeee")
    with pytest.raises(SystemExit) as ended:
        main(["solve", "connect_four", "--moves", moves, "--json"])
    assert not ended.value.code
    solved = json.loads(capsys.readouterr().out)
    page = open_page(f"/solver?moves={moves}")
    expect(page.locator("#state")).to_have_text("solved")
    keep(page, "solver-solved")
    overlay = page.locator("#frame svg .cell").evaluate_all(OVERLAY)
    scores = {key[0]: int(label.split("score ")[1]) for key, label, _ in overlay}
    assert scores == {column: score for column, score in solved["scores"].items() if score is not None}
    assert [key for key, _, is_best in overlay if is_best] == solved["best"]
    marks = page.locator("#frame svg .mark").all_text_contents()
    assert [int(mark.replace("\N{MINUS SIGN}", "-")) for mark in marks] == list(scores.values())
    assert len(set(scores.values())) > 1
    assert f"({signed(solved['score'])}); best: {' '.join(solved['best'])}" in (page.locator("#verdict").text_content() or "")


def signed(score: float) -> str:
    return f"{score:+g}".replace("-", "\N{MINUS SIGN}") if score else "0"
