"""Pictures as SVG."""

from xml.etree import ElementTree

import pytest

import games
from games.kit.svg import Canvas, picture
from zerofleet.testing import built_in_games


@pytest.mark.parametrize("name", built_in_games())
def test_every_game_has_a_picture_that_is_well_formed_and_has_a_title(name):
    game = games.make(name)
    root = ElementTree.fromstring(picture(game, games.new_state(game)))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.get("aria-label")
    assert root.find("{http://www.w3.org/2000/svg}title").text
    assert float(root.get("width")) > 0


def test_text_and_titles_are_escaped():
    canvas = Canvas(10, 10)
    canvas.text(5, 5, "<&>")
    root = ElementTree.fromstring(canvas.render('a "<b>"'))
    assert [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")] == ["<&>"]
    assert root.get("aria-label") == 'a "<b>"'
