"""Diagnostics of a run: from the pages of the services to the second page, its remarks, the lines and the history."""

import io
import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

from zerofleet.contracts.promotions import Champion
from zerofleet.supervisor import remarks
from zerofleet.supervisor.child import ChildState
from zerofleet.supervisor.counters import Totals
from zerofleet.supervisor.diagnostics import Diagnostics, DiagnosticsMeter, Trend
from zerofleet.supervisor.history import History
from zerofleet.supervisor.lines import progress_line, row
from zerofleet.supervisor.pages import MetricsPage
from zerofleet.supervisor.readings import Readings, ServiceReading
from zerofleet.supervisor.screen import Event, Title, draw
from zerofleet.telemetry import metrics

TITLE = Title("connect_four", "laptop", "runs/connect_four-laptop", 1800.0, "Ctrl-C stops it")
NARROW = Diagnostics(
    endings={"result": 31_204, "cut": 0, "resigned": 24_112, "soft_resigned": 120},
    resigned_share=0.46,
    wins_taken=51_200,
    wins_overlooked=3_120,
    overlooked_share=0.203,
    target_entropy=0.90,
    highest_entropy=1.61,
    distinct_openings=0.41,
    new_positions=0.61,
    samples=339_000,
    selfplay_evaluations=22_500_000,
    match_evaluations=4_100_000,
    ladder_evaluations=300_000,
    evaluations_per_sample=79.2,
    match_share=0.16,
    network_age_s=154.0,
    adoptions=10,
    adoption_total_s=1540.0,
    trends={"target_entropy": (1.61, 1.4, 1.2, 0.9)},
)
HEALTHY = Diagnostics(
    endings={"result": 900},
    resigned_share=0.0,
    wins_taken=880,
    target_entropy=1.5,
    highest_entropy=1.6,
    new_positions=0.8,
    distinct_openings=0.9,
    overlooked_share=0.0,
    match_share=0.04,
    adoptions=3,
    adoption_total_s=40.0,
)
READINGS = Readings(
    elapsed_s=1200.0,
    left_s=600.0,
    champion=Champion("connect_four", 14, 10, "ab", 0, "won"),
    services=(ServiceReading("trainer", ChildState.READY, 700.0, 0, 300 << 20),),
    diagnostics=NARROW,
)
EVENTS = [Event(12.0, "trainer was killed by SIGKILL; restarting in 0.5 s"), Event(600.0, "candidate 5 " + "x" * 200)]


def worker(
    *, games: int, resigned: int = 0, entropy: float = 1.0, evaluations: int = 0, version: int = 1, age_s: float = 9.0
) -> str:
    return f"""
zerofleet_games_ended_total{{ending="result"}} {games - resigned}
zerofleet_games_ended_total{{ending="resigned"}} {resigned}
zerofleet_resigned_games_ratio {resigned / games if games else 0.0}
zerofleet_target_entropy_nats {entropy}
zerofleet_distinct_openings_ratio 0.5
zerofleet_new_positions_ratio 0.75
zerofleet_wins_in_one_total{{outcome="taken"}} {3 * games}
zerofleet_wins_in_one_total{{outcome="overlooked"}} {games}
zerofleet_selfplay_samples_total{{weight="full"}} {10 * games}
zerofleet_selfplay_samples_total{{weight="reduced"}} {7 * games}
zerofleet_evaluations_total{{source="network"}} {evaluations}
zerofleet_evaluations_total{{source="cache"}} {5 * evaluations}
zerofleet_adopted_version {version}
zerofleet_playing_network_age_seconds {age_s}
zerofleet_export_to_adoption_seconds_count {version}
zerofleet_export_to_adoption_seconds_sum {20 * version}
"""


def gatekeeper(match: int, ladder: int) -> str:
    return f"""
zerofleet_evaluations_total{{source="network"}} {match + ladder}
zerofleet_gate_evaluations_total{{purpose="match"}} {match}
zerofleet_gate_evaluations_total{{purpose="ladder"}} {ladder}
"""


class Fleet:
    """Pages of services, given in turn to one meter."""

    def __init__(self) -> None:
        self.totals, self.meter = Totals(), DiagnosticsMeter()

    def look(self, at_s: float, **texts: str) -> Diagnostics:
        pages = {name: MetricsPage(text) for name, text in texts.items()}
        for name, page in pages.items():
            self.totals.take(name, page)
        return self.meter.take(at_s, self.totals, [page for name, page in pages.items() if name != "gate"])


def drawn(now: Readings, columns: int, lines: int, *, page: str = "diagnostics", has_keys: bool = True) -> list[str]:
    console = Console(width=columns, height=lines, file=io.StringIO(), force_terminal=False, record=True)
    console.print(draw(TITLE, now, EVENTS, columns=columns, lines=lines, page=page, has_keys=has_keys))
    return console.export_text().splitlines()


def test_counts_are_summed_over_workers_and_states_are_averaged_over_those_with_games() -> None:
    found = Fleet().look(
        0.0,
        a=worker(games=10, resigned=5, entropy=1.2, version=3, age_s=40.0),
        b=worker(games=30, entropy=1.0, version=4, age_s=7.0),
        c=worker(games=0, entropy=0.0, version=0, age_s=0.0),
    )
    assert found.endings == {"result": 35, "cut": 0, "resigned": 5, "soft_resigned": 0}
    assert (found.games, found.wins_taken, found.wins_overlooked, found.samples) == (40, 120, 40, 400)
    assert found.resigned_share == 0.25
    assert found.target_entropy == pytest.approx(1.1)
    assert found.network_age_s == 40.0
    assert (found.adoptions, found.adoption_s) == (7, 20.0)


def test_the_gate_has_its_share_of_the_recent_evaluations_of_both() -> None:
    fleet = Fleet()
    fleet.look(0.0, a=worker(games=0), gate=gatekeeper(0, 0))
    found = fleet.look(60.0, a=worker(games=10, evaluations=6_000), gate=gatekeeper(1_600, 400))
    assert (found.selfplay_evaluations, found.match_evaluations, found.ladder_evaluations) == (6_000, 1_600, 400)
    assert found.match_share == 0.2
    assert found.evaluations_per_sample == 80.0
    assert found.overlooked_share == 0.25
    later = fleet.look(600.0, a=worker(games=20, evaluations=12_000), gate=gatekeeper(1_600, 400))
    assert later.match_share == 0.0  # of the latest minutes


def test_a_restarted_worker_continues_the_counts() -> None:
    fleet = Fleet()
    fleet.look(0.0, a=worker(games=10, resigned=4))
    found = fleet.look(1.0, a=worker(games=2, resigned=1))
    assert found.endings["result"] + found.endings["resigned"] == 12
    assert found.endings["resigned"] == 5


def test_the_highest_entropy_is_kept() -> None:
    fleet = Fleet()
    for at_s, entropy in ((0.0, 1.2), (1.0, 1.6), (2.0, 0.9)):
        found = fleet.look(at_s, a=worker(games=3, entropy=entropy))
    assert (found.target_entropy, found.highest_entropy) == (0.9, 1.6)


def test_nothing_is_known_before_the_first_game() -> None:
    found = Fleet().look(0.0, a=worker(games=0, version=0))
    assert all(
        math.isnan(value) for value in (found.resigned_share, found.target_entropy, found.match_share, found.network_age_s)
    )
    assert math.isnan(found.adoption_s)
    assert remarks.warnings(found) == []


@pytest.mark.parametrize("points", [5, 24, 25])
def test_a_trend_covers_the_time_from_the_start_to_now(points: int) -> None:
    trend = Trend(points, every_s=10.0)
    for second in range(10_000):
        trend.add(float(second), float(second))
    values = trend.values
    assert points / 2 <= len(values) <= points
    assert values[0] == 0.0
    assert len({later - earlier for earlier, later in pairwise(values)}) == 1
    assert values[-1] > 10_000 * (1 - 2 / len(values))


def test_the_metrics_that_are_read_are_those_of_the_services() -> None:
    exposed = set(metrics.names("selfplay_worker")) | set(metrics.names("gatekeeper"))
    text = worker(games=1) + gatekeeper(1, 1)
    read = {line.partition("{")[0].partition(" ")[0] for line in text.split("\n") if line}
    assert {name.removesuffix("_count").removesuffix("_sum") for name in read} <= exposed


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (96, 30), (110, 38), (200, 60)])
@pytest.mark.parametrize("now", [READINGS, replace(READINGS, diagnostics=Diagnostics())], ids=["narrow", "empty"])
def test_the_second_page_fits_the_terminal(columns: int, lines: int, now: Readings) -> None:
    page = drawn(now, columns, lines)
    assert len(page) <= lines
    assert all(len(line) <= columns for line in page)
    assert {len(line) for line in page if line.startswith(("╭", "│", "╰"))} == {columns}


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (110, 38)])
def test_the_second_page_shows_every_figure_whole(columns: int, lines: int) -> None:
    page = "\n".join(drawn(READINGS, columns, lines))
    panels = page[page.index("╭") : page.rindex("╯")]
    assert "…" not in panels
    for wanted in (
        "resigned games             46 %",
        "too many: few are played out",
        "wins in one overlooked     20 %",
        "target entropy         0.90 nat █",
        "56 % of its highest: narrow",
        "new positions              61 %",
        "narrow: games repeat themselves",
        "31.2 k",
        "43 %",
        "4.10 M",
        "16 %",
        "79.2",
        "3 min",
    ):
        assert wanted in panels


def test_the_last_line_lists_the_keys_only_with_a_keyboard() -> None:
    assert drawn(READINGS, 110, 38)[-1].startswith(" 1 overview  2 diagnostics  run runs/connect_four-laptop")
    assert drawn(READINGS, 110, 38, has_keys=False)[-1].startswith(" run runs/connect_four-laptop   Ctrl-C")


def test_figures_beyond_their_limits_need_attention() -> None:
    assert remarks.warnings(NARROW) == [
        "resigned games: too many: few are played out",
        "wins in one: overlooks wins",
        "target entropy: 56 % of its highest: narrow",
        "new positions: narrow: games repeat themselves",
        "gate: the gate is expensive",
        "export to adoption: the gate holds learning back",
    ]
    assert remarks.warnings(HEALTHY) == []


@pytest.mark.parametrize("change", [{"new_positions": 0.7}, {"target_entropy": 1.3}, {"target_entropy": math.nan}])
def test_sharp_targets_or_repeated_positions_alone_are_not_narrow(change: dict[str, float]) -> None:
    found = replace(NARROW, **change)
    assert not remarks.is_narrow(found)
    assert not any("narrow" in text for text in remarks.warnings(found))


def test_a_few_overlooked_wins_at_the_start_need_no_attention() -> None:
    assert not remarks.on_overlooked_wins(replace(NARROW, wins_taken=5, wins_overlooked=5)).needs_attention


def test_a_progress_line_has_the_figures_and_what_needs_attention() -> None:
    line = progress_line(READINGS)
    assert "target entropy 0.90 nat, new positions 61 %" in line
    assert "attention: resigned games: too many: few are played out; wins in one: overlooks wins" in line
    assert "attention" not in progress_line(replace(READINGS, diagnostics=HEALTHY))


def test_history_holds_counts_and_states(tmp_path: Path) -> None:
    History(tmp_path / "run.jsonl", pytest.fail).write(READINGS)
    written = json.loads((tmp_path / "run.jsonl").read_text())
    assert (written["ended_resigned"], written["wins_overlooked"], written["match_evaluations"]) == (24_112, 3_120, 4_100_000)
    assert (written["target_entropy"], written["adoption_total_s"], written["network_age_s"]) == (0.9, 1540.0, 154.0)
    assert row(Readings())["target_entropy"] is None


def test_a_line_of_history_cut_short_by_a_crash_is_removed(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_text('{"games": 1}\n{"games')
    History(tmp_path / "run.jsonl", pytest.fail).write(READINGS)
    first, second = map(json.loads, (tmp_path / "run.jsonl").read_text().splitlines())
    assert (first, second["ended_resigned"]) == ({"games": 1}, 24_112)
