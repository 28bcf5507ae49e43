"""Charts say what the numbers say; a viewer is not needed to check it: SVG keeps every text as a comment."""

import re
import subprocess
import sys
from itertools import pairwise

import pytest

from zerofleet.errors import InvalidRequest
from zerofleet.strength.charts import (
    CurvePanel,
    LadderPoint,
    _apart,
    ladder_chart,
    learning_chart,
    panels_chart,
    rating_chart,
    require_drawable,
)
from zerofleet.strength.learning.curves import Point
from zerofleet.strength.ratings import Rating

RANDOM, FIRST, SECOND = (
    Rating("random", 0.0, 0.0, 0.0, 40),
    Rating("alpha_beta:1", 310.0, 260.0, 362.0, 40),
    Rating("alpha_beta:2", 318.0, 268.0, 372.0, 40),
)
CHAMPIONS = [LadderPoint(v, Rating(f"model:{v}", 90.0 * v, 90.0 * v - 50, 90.0 * v + 60, 20)) for v in (1, 4, 6)]

pytestmark = pytest.mark.slow  # the first chart imports matplotlib


def texts(path):
    return re.findall(r"<!-- (.*?) -->", path.read_text())


def test_a_rating_chart_labels_every_player_with_its_interval(tmp_path):
    rating_chart([FIRST, RANDOM, SECOND], title="Who is best", path=tmp_path / "a.svg")
    shown = texts(tmp_path / "a.svg")
    names = [text for text in shown if text in {"random", "alpha_beta:1", "alpha_beta:2"}]
    assert names == ["random", "alpha_beta:1", "alpha_beta:2"]  # from the bottom up
    assert {"Who is best", "+310  (+260 to +362)", "0"} <= set(shown)


def test_a_ladder_chart_labels_the_rungs(tmp_path):
    ladder_chart(CHAMPIONS, [RANDOM, FIRST, SECOND], title="Climb", path=tmp_path / "a.svg")
    assert {"Climb", "model version", "random  0", "alpha_beta:1  +310", "alpha_beta:2  +318"} <= set(texts(tmp_path / "a.svg"))


def test_a_learning_chart_labels_every_measure_and_equal_points_give_equal_files(tmp_path):
    points = [Point(at, name, 0.1 * at, 0.09 * at, 0.12 * at, 3, "seeds") for at in (1, 2, 3) for name in ("sign", "exact")]
    for file in ("a.svg", "b.svg"):
        learning_chart(points, title="Three seeds", path=tmp_path / file, x_label="samples")
    assert {"Three seeds", "samples", "sign", "exact", "per cent with 95 % interval"} <= set(texts(tmp_path / "a.svg"))
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    with pytest.raises(InvalidRequest, match="nothing has been judged yet"):
        learning_chart([], title="Nothing", path=tmp_path / "c.svg", x_label="samples")


@pytest.mark.parametrize("champions", [[], CHAMPIONS[:1]], ids=["none", "one"])
def test_the_ladder_of_a_run_just_started_is_drawn(tmp_path, champions):
    ladder_chart(champions, [RANDOM, FIRST], title="Early", path=tmp_path / "a.png", x_label="hours")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_equal_ratings_give_equal_chart_files(tmp_path):
    for name in ("a.svg", "b.svg", "a.png", "b.png"):
        ladder_chart(CHAMPIONS, [RANDOM, FIRST, SECOND], title="Climb", path=tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_overlapping_labels_are_moved_apart_and_the_others_stay():
    assert _apart([0.0, 10.0, 11.0, 30.0], gap=4.0) == pytest.approx([0.0, 8.5, 12.5, 30.0])
    assert _apart([0.0, 0.0, 0.0], gap=2.0) == pytest.approx([-2.0, 0.0, 2.0])
    assert _apart([], gap=1.0) == []


def test_labels_moved_into_their_neighbours_move_as_one_block():
    places = _apart([0.0, 5.0, 6.0, 7.0], gap=4.0)
    assert all(later - earlier >= 4.0 - 1e-9 for earlier, later in pairwise(places))


@pytest.mark.parametrize("name", ["chart.pdf", "chart", "chart.svg.gz"])
def test_unsupported_chart_formats_are_rejected_before_drawing(tmp_path, name):
    with pytest.raises(InvalidRequest, match=r"\.svg or \.png"):
        require_drawable(tmp_path / name)
    with pytest.raises(InvalidRequest):
        rating_chart([RANDOM], title="x", path=tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_chart_without_ratings_is_rejected(tmp_path):
    with pytest.raises(InvalidRequest, match="nothing to draw"):
        rating_chart([], title="x", path=tmp_path / "a.svg")
    with pytest.raises(InvalidRequest, match="nothing to draw"):
        ladder_chart([], [], title="x", path=tmp_path / "a.svg")


def test_curves_have_a_panel_each_and_unknown_values_leave_gaps(tmp_path):
    nan = float("nan")
    panels = [
        CurvePanel("entropy", "nat", (1.0, 2.0, 3.0), (1.5, nan, 0.9)),
        CurvePanel("per sample", "", (1.0, 2.0, 3.0), (nan, nan, nan)),
        CurvePanel("gate", "%", (1.0, 2.0, 3.0), (0.0, 0.0, 0.0)),
        CurvePanel("age", "s", (1.0, 2.0, 3.0), (7.0, 8.0, 9.0)),
    ]
    for name in ("a.svg", "b.svg"):
        panels_chart(panels, title="A run", path=tmp_path / name, x_label="hours")
    assert {"A run", "entropy, nat", "per sample", "gate, %", "age, s"} <= set(texts(tmp_path / "a.svg"))
    assert texts(tmp_path / "a.svg").count("hours") == 3  # below the last panel of each column
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    with pytest.raises(InvalidRequest, match="there is no curve"):
        panels_chart([], title="A run", path=tmp_path / "c.svg", x_label="hours")


def test_matplotlib_is_imported_for_drawing_only_and_without_pyplot(tmp_path):
    script = (
        "import sys, pathlib, zerofleet.strength.charts as c; from zerofleet.strength.ratings import Rating\n"
        "assert 'matplotlib' not in sys.modules\n"
        f"c.rating_chart([Rating('random', 0, 0, 0, 1)], title='t', path=pathlib.Path({str(tmp_path / 'a.png')!r}))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
