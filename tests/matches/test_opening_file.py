import itertools

import pytest

from games.core import make
from zerofleet.errors import InvalidRequest
from zerofleet.strength.matches import Opening, draw_openings, opening_line, position_key, read_openings


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "openings.txt"
        path.write_text(text)
        return path

    return write


def test_openings_are_read_in_order_with_comments_commas_and_the_start(written):
    path = written("# my favourites\n\nb2 a1   # centre, corner\nb2,c2\n-\n")
    assert read_openings(make("tic_tac_toe"), path) == (Opening(0, (4, 6)), Opening(1, (4, 5)), Opening(2, ()))


def test_the_seed_of_a_deal_precedes_the_moves(written):
    game = make("take_six", players=2)
    drawn = tuple(itertools.islice(draw_openings(game, plies=2, seed=5), 4))
    lines = [opening_line(game, opening) for opening in drawn]
    assert all(line.startswith(f"@{opening.seed} ") for line, opening in zip(lines, drawn, strict=True))
    assert read_openings(game, written("\n".join(lines))) == drawn


@pytest.mark.parametrize("name", ["connect_four", "abalone", "chinese_checkers_star37", "rock_paper_scissors"])
def test_written_openings_are_read_back_unchanged(written, name):
    game = make(name)
    drawn = list(itertools.islice(draw_openings(game, plies=4, seed=1), 6))
    read = read_openings(game, written("\n".join(opening_line(game, opening) for opening in drawn)))
    assert [position_key(game, opening) for opening in read] == [position_key(game, opening) for opening in drawn]
    assert [opening.moves for opening in read] == [opening.moves for opening in drawn]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("b2\nb2 z9\n", r"openings.txt line 2: move 2: 'z9' is not a legal move here; legal: "),
        ("b2 a1\n\n# so\na1 b2\nb2 b2\n", "line 5: move 2: 'b2' is not a legal move"),
        ("a1 b1 a2 b2 a3\n", "line 1: the opening ends the game"),
        ("a1 b1 c1\n\nc1 b1 a1 # again\n", "line 3 leads to the same position as line 1"),
        ("@x a1\n", "line 1: '@x' is not a seed"),
        (f"@{1 << 63} a1\n", "is not a seed"),
        ("# nothing\n", "has no opening"),
    ],
)
def test_the_error_for_an_invalid_opening_has_its_line_number(written, text, said):
    with pytest.raises(InvalidRequest, match=said):
        read_openings(make("tic_tac_toe"), written(text))


def test_an_unreadable_opening_file_is_rejected(tmp_path):
    with pytest.raises(InvalidRequest, match="openings cannot be read from"):
        read_openings(make("tic_tac_toe"), tmp_path / "none.txt")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InvalidRequest, match="openings cannot be read from"):
        read_openings(make("tic_tac_toe"), tmp_path / "bytes")
