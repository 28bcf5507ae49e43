"""Exported games: frames, strips, bounds, hands, and pictures that cannot be drawn as pixels."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from PIL import Image

import games
from games.kit.svg import PLAYER_COLOURS, Canvas
from zerofleet.contracts.played import FULL_SEARCH, REDUCED
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.contracts.records.samples import random_game
from zerofleet.errors import InvalidRequest, Overloaded
from zerofleet.library import game_export
from zerofleet.library.game_export import export_game, shown_positions
from zerofleet.library.rasters import parsed, raster, size_of

ROOT = Path(__file__).parents[2]
NAMES = {"s": "http://www.w3.org/2000/svg"}


@pytest.fixture(scope="module")
def stored():
    """Return a game of tic-tac-toe."""
    played = random_game(games.make("tic_tac_toe"), 3, version=2)
    return validate(decode_record(encode_record(played, worker_id="worker-0", uid="ab" * 16, finished_at_ms=0)))


def texts(document: bytes) -> list[str]:
    return ["".join(text.itertext()) for text in Xml.fromstring(document).iterfind("s:text", NAMES)]


def test_an_animation_has_a_frame_for_each_position_and_holds_the_last(stored):
    animation = Image.open(io.BytesIO(export_game(7, stored, "gif").content))
    assert animation.n_frames == len(stored.states)
    durations = []
    for frame in range(animation.n_frames):
        animation.seek(frame)
        durations.append(animation.info["duration"])
    assert set(durations[:-1]) == {700}
    assert durations[-1] == 3000


def test_a_strip_shows_every_position_with_its_move(stored):
    strip = export_game(7, stored, "svg")
    boards = Xml.fromstring(strip.content).findall("s:svg", NAMES)
    assert len(boards) == len(stored.states)
    assert strip.note == ""
    captions = texts(strip.content)
    first = stored.game.action_name(stored.states[0], int(stored.record.moves[0]))
    assert captions[:2] == ["start", f"1. {first}, player 1"]
    pixels = Image.open(io.BytesIO(export_game(7, stored, "png").content))
    width, height = size_of(parsed(strip.content.decode()))
    assert pixels.size == (round(width), round(height))


def test_captions_mark_the_moves_of_fast_and_reduced_searches():
    played = random_game(games.make("tic_tac_toe"), 3)
    flags = {0: FULL_SEARCH, 1: 0, 3: REDUCED}  # none for the third move
    searched = tuple(replace(one, flags=flags.get(one.ply, FULL_SEARCH)) for one in played.searched if one.ply != 2)
    record = encode_record(replace(played, searched=searched), worker_id="w", uid="ab" * 16, finished_at_ms=0)
    captions = texts(export_game(7, validate(decode_record(record)), "svg").content)
    found = [re.sub(r"\d\. [abc]\d", "", caption) for caption in captions[1:5]]
    assert found == [", player 1", " (fast), player 2", ", player 1", " (reduced), player 2"]


def test_a_long_game_is_shown_in_part_and_the_note_states_it(stored, monkeypatch):
    monkeypatch.setattr(game_export, "MOST_BOARDS", 4)
    strip = export_game(7, stored, "svg")
    shown = shown_positions(len(stored.states), 4)
    assert strip.note == f"{len(shown)} of {len(stored.states)} positions: one in {shown[1]}, and the last"
    captions = texts(strip.content)
    assert len(captions) == len(shown)
    assert captions[-1].startswith(f"{len(stored.states) - 1}. ")


@pytest.mark.parametrize(("positions", "most"), [(1, 4), (2, 4), (4, 4), (5, 4), (100, 7), (400, 150)])
def test_shown_positions_are_few_and_have_the_first_and_the_last(positions, most):
    shown = shown_positions(positions, most)
    assert len(shown) <= most
    assert (shown[0], shown[-1]) == (0, positions - 1)
    assert shown == sorted(set(shown))


def test_an_export_ends_when_it_is_stopped_or_takes_too_long(stored, monkeypatch):
    with pytest.raises(Overloaded, match="stopped"):
        export_game(7, stored, "gif", is_stopped=lambda: True)
    monkeypatch.setattr(game_export, "LIMIT_S", -1.0)
    with pytest.raises(Overloaded, match="export it as jsonl"):
        export_game(7, stored, "png")


class Hiding:
    """Game with hidden hands, whose pictures name the seat that looks."""

    def __init__(self, game) -> None:
        self._game = game

    def __getattr__(self, name):
        return getattr(self._game, name)

    def spec(self):
        return replace(self._game.spec(), information="hidden")

    def draw_svg(self, state) -> str:
        return self.draw_svg_for(state, None)

    def draw_svg_for(self, state, viewer) -> str:
        canvas = Canvas(100, 20)
        canvas.text(50, 10, "every hand" if viewer is None else f"hand {viewer}")
        return canvas.render("hands")


def test_a_strip_of_a_seat_shows_its_hand_alone(stored):
    hiding = replace(stored, game=Hiding(stored.game))
    seen = export_game(7, hiding, "svg", viewer=1).content
    assert b"hand 1" in seen
    assert b"every hand" not in seen
    assert b"hand 0" not in seen
    assert b"every hand" in export_game(7, hiding, "svg").content
    captions = [text for text in texts(seen) if text != "start"]
    assert captions[0] == "1. player 1"  # a choice of another seat
    assert captions[1].endswith(", player 2")
    with pytest.raises(InvalidRequest, match="seat 3 is not one of the 2 seats"):
        export_game(7, hiding, "svg", viewer=2)


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "games" / "images").glob("*.svg")), ids=lambda path: path.stem)
def test_the_picture_of_every_game_becomes_pixels(path):
    picture = path.read_text()
    drawn = raster(picture, scale=0.5)
    assert drawn.size == tuple(round(length / 2) for length in size_of(parsed(picture)))
    assert len(drawn.getcolors(1 << 20)) > 4


def test_shapes_lie_where_the_vectors_lie():
    canvas = Canvas(40, 20)
    canvas.circle(10, 10, 6, fill=PLAYER_COLOURS[0], stroke="none")
    canvas.rectangle(20, 0, 20, 20, fill="#000000")
    canvas.polygon([(30, 5), (36, 5), (36, 15), (30, 15)], fill=PLAYER_COLOURS[1])
    canvas.line(20, 2, 28, 2, stroke="#ffffff", width=2)
    drawn = raster(canvas.render("shapes"), scale=2.0)
    colours = {place: "#{:02x}{:02x}{:02x}".format(*drawn.getpixel(place)) for place in ((20, 20), (42, 30), (66, 20), (48, 4))}
    assert colours == {(20, 20): PLAYER_COLOURS[0], (42, 30): "#000000", (66, 20): PLAYER_COLOURS[1], (48, 4): "#ffffff"}
    assert drawn.getpixel((34, 20)) == drawn.getpixel((1, 1))  # outside of the circle


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ('<path d="M0 0"/>', "<path>"),
        ('<rect width="1" height="1" opacity="0.5"/>', "opacity"),
        ('<circle cx="1" cy="1" r="many"/>', "r='many'"),
    ],
)
def test_a_picture_that_cannot_be_drawn_as_pixels_is_refused_with_the_shape(shape, reason):
    with pytest.raises(InvalidRequest, match=reason):
        raster(f'<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10">{shape}</svg>')
