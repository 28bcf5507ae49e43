"""The page, the lines, the history and the summary: made of readings alone."""

import dataclasses
import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console

from zerofleet.contracts.promotions import Candidate, CandidateStatus, Champion, MatchReport, Rung
from zerofleet.service.compilation_note import Compilation
from zerofleet.supervisor import words
from zerofleet.supervisor.child import ChildState, GaveUp
from zerofleet.supervisor.history import History
from zerofleet.supervisor.lines import progress_line, row
from zerofleet.supervisor.presenter import LivePage, PlainLines, presenter
from zerofleet.supervisor.readings import Match, Readings, ServiceReading
from zerofleet.supervisor.request import RunRequest
from zerofleet.supervisor.screen import PAGES, Event, Title, draw
from zerofleet.supervisor.summary import summary
from zerofleet.supervisor.words import UNKNOWN

TITLE = Title("connect_four", "laptop", "runs/connect_four-laptop", 1800.0, "Ctrl-C stops it")
SERVICES = tuple(
    ServiceReading(name, ChildState.READY, 700.0, 0, 300 << 20)
    for name in ("inference_server", "gatekeeper", "trainer", "worker-0")
)


def report(wins: int, draws: int, losses: int, llr: float) -> MatchReport:
    share = (wins + draws / 2) / (wins + draws + losses)
    return MatchReport(2, wins, draws, losses, (0, 0, 0, 0, 0), share, share - 0.1, share + 0.1, llr)


BUSY = Readings(
    elapsed_s=751,
    left_s=1049,
    games=1204,
    games_stored=5210,
    games_per_hour=3610.3,
    moves=30112,
    games_active=768,
    evaluations_per_s=18240.1,
    mean_batch=384.2,
    device_busy=0.97,
    cache_share=0.312,
    latency_s=0.042,
    losses={"policy": 1.613, "value": 0.82, "total": 2.43},
    loss_trend=tuple(3 - 0.1 * i for i in range(20)),
    step=1820,
    steps_per_s=4.1,
    window=80_000,
    samples=112_300,
    reuse=2.13,
    learning_rate=2e-3,
    lag=3,
    champion=Champion("connect_four", 5, 3, "ab", 0, "won"),
    champion_age_s=245,
    candidates=(
        Candidate("connect_four", 3, CandidateStatus.REJECTED, report(20, 2, 38, -2.95), "lost"),
        Candidate("connect_four", 4, CandidateStatus.SUPERSEDED),
        Candidate("connect_four", 5, CandidateStatus.PROMOTED, report(60, 11, 29, 2.99), "won"),
        Candidate("connect_four", 6, CandidateStatus.BROKEN, None, "weights are not finite"),
        Candidate("connect_four", 7, CandidateStatus.PLAYING),
        Candidate("connect_four", 8, CandidateStatus.QUEUED),
    ),
    match=Match(7, 12, 3, 5, 1.2, -2.94, 2.94, 0.68, 0.48, 0.84),
    ladder=(
        Rung("model:5", 812, 770, 850, 120, anchored=True),
        Rung("alpha_beta:5", 640, 600, 690, 60, anchored=True),
        Rung("random", 0, 0, 0, 200, anchored=True),
    ),
    services=SERVICES,
)
EVENTS = [
    Event(12.0, "trainer was killed by SIGKILL; restarting in 0.5 s"),
    Event(600.0, "candidate 5 " + "x" * 200),
    Event(700.0, "the run continues without ui: ui refused to start; the end of its log (ui.log):\n\n" + "  a line\n" * 12),
]


def drawn(
    now: Readings, columns: int, lines: int, title: Title = TITLE, events: list[Event] | None = None, page: str = PAGES[0]
) -> list[str]:
    console = Console(width=columns, height=lines, file=io.StringIO(), force_terminal=False, record=True)
    console.print(draw(title, now, events or [], columns=columns, lines=lines, page=page))
    return console.export_text().splitlines()


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (96, 30), (110, 38), (200, 60)])
@pytest.mark.parametrize("now", [Readings(services=SERVICES), BUSY], ids=["empty", "busy"])
def test_the_page_fits_the_terminal(columns: int, lines: int, now: Readings) -> None:
    page = drawn(now, columns, lines, events=EVENTS)
    assert len(page) <= lines
    assert all(len(line) <= columns for line in page)
    edges = {len(line) for line in page if line.startswith(("╭", "│", "╰"))}
    assert edges == {columns}  # panels end at one edge


def test_the_page_shows_the_figures_of_every_panel() -> None:
    page = "\n".join(drawn(BUSY, 110, 38))
    for wanted in (
        "connect_four  laptop",
        "12:31 of 30:00",
        "1,204 3,610 /h",
        "18.2 k /s",
        "384 positions",
        "42 ms",
        "97 %",
        "31 % of evaluations",
        "1.613",
        "80.0 k of 112 k",
        "2.13 per sample",
        "7 playing",
        "68 % ±18 +1.20",
        "the match ends at llr -2.94 or +2.94",
        "5 promoted ★",
        "champion for 4 min",
        "version 5 ★",
        "alpha-beta 5",
        "worker-0 300 MiB",
        "runs/connect_four-laptop",
    ):
        assert wanted in page


def test_a_version_on_trial_shows_its_age_and_that_it_has_no_games() -> None:
    waiting = Candidate("connect_four", 9, CandidateStatus.TRIAL)
    now = dataclasses.replace(BUSY, candidates=(waiting,), champion=Champion("connect_four", 9, 9, "ab", 0, "at once"))
    for columns, known in ((96, {9: 300.0}), (110, {9: 300.0}), (110, {})):
        (line,) = [one for one in drawn(dataclasses.replace(now, promoted_for_s=known), columns, 38) if "trial" in one]
        assert ("9 trial ★ 5 min" in line, "9 trial ★" in line, "0 games" in line) == (bool(known), True, True)


def test_a_match_before_its_first_pair_has_neither_points_nor_an_interval() -> None:
    page = "\n".join(drawn(dataclasses.replace(BUSY, match=Match(7, 1, 0, 0, 0.0, -2.94, 2.94)), 110, 38))
    assert f"{UNKNOWN} +0.00" in page


def test_a_service_that_is_not_ready_shows_its_state_and_restarts() -> None:
    services = (ServiceReading("trainer", ChildState.RESTARTING, 3.0, 2, 0),)
    assert any("trainer restarting 2 restarts" in line for line in drawn(Readings(services=services), 110, 38))


@pytest.mark.parametrize("columns", [80, 96, 100])
def test_every_service_shows_its_state_however_narrow_the_terminal(columns: int) -> None:
    starting = tuple(service._replace(state=ChildState.STARTING) for service in SERVICES)
    compiling = starting[-1]._replace(name="worker-1", compiling=Compilation(34, 12.0))
    page = drawn(Readings(services=(*starting, compiling)), columns, 38)
    told = (
        "inference server starting",
        "gatekeeper starting",
        "trainer starting",
        "worker-0 starting",
        "worker-1 compiles, 12 of",
    )
    assert [sum(one in line for line in page) for one in told] == [1] * len(told)
    assert all(len(line) <= columns for line in page)


@pytest.mark.parametrize(
    ("columns", "run_dir", "ends"),
    [
        (110, "runs/connect_four-laptop", "run runs/connect_four-laptop   Ctrl-C stops it; the same command resumes"),
        (80, "runs/connect_four-laptop", "run runs/connect_four-laptop   Ctrl-C stops it"),
        (
            80,
            "/home/somebody/experiments/2026/runs/connect_four-laptop",
            "run …2026/runs/connect_four-laptop   Ctrl-C stops it",
        ),
    ],
)
def test_the_last_line_shows_the_end_of_the_run_directory_and_the_key_that_stops_it(
    columns: int, run_dir: str, ends: str
) -> None:
    title = dataclasses.replace(TITLE, run_dir=run_dir, interrupt="Ctrl-C stops it; the same command resumes")
    console = Console(width=columns, height=24, file=io.StringIO(), record=True)
    console.print(draw(title, BUSY, [], columns=columns, lines=24, has_keys=True))
    last = console.export_text().splitlines()[-1].rstrip()
    assert last.startswith(" 1 overview  2 diagnostics  run ")
    assert last.endswith(ends)
    assert len(last) <= columns


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (96, 30)])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_very_many_services_fits_the_terminal(columns: int, lines: int, page: str) -> None:
    many = tuple(SERVICES[-1]._replace(name=f"worker-{n}") for n in range(100))
    shown = drawn(dataclasses.replace(BUSY, services=many), columns, lines, events=EVENTS * 2, page=page)
    assert len(shown) <= lines
    assert sum("● worker" in line for line in shown) == 3
    assert any(line.rstrip().endswith("…") for line in shown if "● worker" in line)


@pytest.mark.parametrize("columns", [80, 100])
def test_an_event_that_is_cut_ends_in_an_ellipsis(columns: int) -> None:
    (line,) = [line for line in drawn(BUSY, columns, 38, events=EVENTS) if "candidate 5" in line]
    assert line.rstrip().endswith("x…")


def test_the_last_line_states_the_effect_of_an_interrupt() -> None:
    title = dataclasses.replace(TITLE, interrupt="Ctrl-C leaves this page")
    assert "runs/connect_four-laptop   Ctrl-C leaves this page" in drawn(BUSY, 100, 38, title)[-1]


def test_several_servers_show_device_and_share_on_the_page_and_in_the_history() -> None:
    ready = ServiceReading("inference_server-0", ChildState.READY, 3.0, 0, 300 << 20)
    first, second = ready._replace(device="cuda:0", share=0.52), ready._replace(name="inference_server-1", device="cpu")
    now = Readings(services=(first, second))
    line = next(line for line in drawn(now, 130, 38) if "inference" in line)
    assert "inference server-0 300 MiB cuda:0 52 %" in line
    assert "inference server-1 300 MiB cpu" in line
    assert (row(now)["share_inference_server-0"], row(now)["share_inference_server-1"]) == (0.52, None)
    assert not any(name.startswith("share_") for name in row(BUSY))


@pytest.mark.parametrize(("free", "told"), [(0, "disk: 0 MiB free"), (199 << 20, "disk: 199 MiB free")])
def test_page_and_lines_warn_of_a_full_disk(free: int, told: str) -> None:
    now = dataclasses.replace(BUSY, disk_free_bytes=free)
    assert told in "\n".join(drawn(now, 110, 38))
    assert told in progress_line(now)


@pytest.mark.parametrize("free", [None, 200 << 20, 1 << 40])
def test_a_disk_with_space_is_not_mentioned(free: int | None) -> None:
    now = dataclasses.replace(BUSY, disk_free_bytes=free)
    assert "disk:" not in progress_line(now) + "\n".join(drawn(now, 110, 38))


def test_the_page_shows_refused_games() -> None:
    assert any("7 refused" in line for line in drawn(Readings(rejected=7), 110, 38))


def test_a_history_line_contains_known_figures_only() -> None:
    assert progress_line(Readings(elapsed_s=65, games=3)) == "1:05  games 3"
    line = progress_line(BUSY)
    for wanted in ("games 1,204 (3,610/h)", "evaluations 18.2 k/s in batches of 384", "loss policy 1.613 value 0.820"):
        assert wanted in line
    assert "champion 5 (812 Elo, 770 to 850)  match of 7: 12/3/5, llr +1.20" in line


def test_history_is_written_as_json_lines_without_nan(tmp_path: Path) -> None:
    history = History(tmp_path / "run.jsonl", lambda _text: None)
    history.write(Readings())
    history.write(BUSY)
    first, second = (json.loads(line, parse_constant=pytest.fail) for line in (tmp_path / "run.jsonl").read_text().splitlines())
    assert first["evaluations_per_s"] is None
    assert (second["games"], second["champion_elo"], second["loss_policy"]) == (1204, 812, 1.613)


def test_a_failed_write_of_history_is_reported_once(tmp_path: Path) -> None:
    said: list[str] = []
    history = History(tmp_path / "absent" / "run.jsonl", said.append)
    history.write(BUSY)
    history.write(BUSY)
    (tmp_path / "absent").mkdir()
    history.write(BUSY)
    assert len(said) == 1
    assert "cannot be written: No such file or directory; the run continues without its history" in said[0]
    assert (tmp_path / "absent" / "run.jsonl").read_text().count("\n") == 1


def test_the_summary_lists_results_and_next_commands() -> None:
    text = summary(RunRequest("connect_four", Path("runs/a"), {"rows": "4"}, "laptop", 1800.0), BUSY)
    for wanted in (
        "1,204 in this session, 5,210 stored in the run",
        "1,820 steps on 112,300 samples; policy loss 1.613, value loss 0.820",
        "version 5, 812 Elo (95 % interval 770 to 850; random is 0), 120 rated games",
        "alpha-beta of depth 5 has 640 Elo, 600 to 690",
        "60 won, 11 drawn, 29 lost against 2 (66 % of points, llr +2.99)",
        "zerofleet play connect_four --set rows=4 --run-dir runs/a",
        "zerofleet run connect_four --preset laptop --set rows=4 --run-dir runs/a --for 1800s",
    ):
        assert wanted in text


def test_the_summary_of_a_run_without_results_reports_that() -> None:
    text = summary(RunRequest("connect_four", Path("runs/a")), Readings(elapsed_s=3))
    assert "not yet: no network was promoted" in text
    assert "none yet" in text


def test_the_summary_of_a_run_without_games_names_a_compilation_as_the_reason() -> None:
    request = RunRequest("connect_four", Path("runs/a"))
    told = "no game was finished: the rules were still compiling, once for this machine; the same command goes on"
    assert told in summary(request, Readings(elapsed_s=3), was_compiling=True)
    assert told not in summary(request, Readings(elapsed_s=3, games=1), was_compiling=True)
    assert told not in summary(request, Readings(elapsed_s=3))


def test_the_summary_of_a_run_names_services_that_were_never_ready() -> None:
    request, starting = RunRequest("connect_four", Path("runs/a")), ("inference_server", "worker-0")
    told = "inference_server, worker-0 were still starting"
    idle, busy = Readings(elapsed_s=180), Readings(elapsed_s=180, games=3, games_stored=3)
    assert f"no game was finished: {told}; the same command goes on" in summary(request, idle, unready=starting)
    both = summary(request, idle, was_compiling=True, unready=("trainer",))
    assert "the rules were still compiling, once for this machine, and trainer was still starting; the same" in both
    assert told in summary(request, busy, unready=starting)
    assert "no game was finished" not in summary(request, busy, unready=starting)
    assert told not in summary(request, idle, GaveUp("trainer was killed 5 times in a row"), unready=starting)


def test_the_summary_of_a_run_states_where_games_are_that_were_not_stored() -> None:
    request, told = RunRequest("connect_four", Path("runs/a")), "the games wait in the stream, and the next start stores them"
    assert told in summary(request, Readings(games=3112))
    for now in (Readings(), Readings(games=3, games_stored=1), Readings(games=3, rejected=3)):
        assert told not in summary(request, now)


def test_a_run_whose_service_refused_its_settings_offers_no_command_to_resume_it() -> None:
    request = RunRequest("connect_four", Path("runs/a"), overrides={"train.learner": "sarsa_lambda"})
    refused, died = GaveUp("trainer refused to start", is_final=True), GaveUp("trainer was killed 5 times in a row")
    assert "train.learner" not in summary(request, Readings(), refused)
    assert "train.learner=sarsa_lambda" in summary(request, Readings(), died)


def test_plain_output_prints_events_at_once_and_progress_periodically() -> None:
    out = io.StringIO()
    shown = presenter(Console(file=out, width=60), TITLE)
    assert isinstance(shown, PlainLines)
    with shown:
        for second in range(25):
            shown.show(Readings(elapsed_s=float(second), games=second))
        shown.tell(61, "trainer was killed [by SIGKILL]")
    lines = out.getvalue().splitlines()
    assert lines[0] == "zerofleet run of connect_four, preset laptop, in runs/connect_four-laptop"
    assert lines[1:] == ["0:01  games 1", "0:11  games 11", "0:21  games 21", "1:01  trainer was killed [by SIGKILL]"]


def test_a_terminal_gets_the_live_page() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=110, height=40, _environ={"TERM": "xterm"})
    shown = presenter(console, TITLE)
    assert isinstance(shown, LivePage)
    with shown:
        shown.show(BUSY)
        shown.tell(3.0, "something happened")
    assert "something happened" in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (7.25, "7.2"), (384.2, "384"), (1204, "1.20 k"), (18240, "18.2 k"), (112300, "112 k"), (3.41e6, "3.41 M")],
)
def test_numbers_are_shown_with_three_digits(number: float, text: str) -> None:
    assert words.compact(number) == text


def test_times_and_sizes_are_formatted_for_people() -> None:
    assert [words.clock(s) for s in (0, 61, 3661, -1)] == ["0:00", "1:01", "1:01:01", "0:00"]
    assert [words.duration(s) for s in (42, 600, 7200)] == ["42 s", "10 min", "2.0 h"]
    assert [words.memory(n) for n in (0, 300 << 20, 3 << 30)] == [words.UNKNOWN, "300 MiB", "3.0 GiB"]
    assert [words.share(0.314), words.share(math.nan)] == ["31 %", words.UNKNOWN]
    assert words.sparkline([1, 2, 3, math.nan], 2) == "▁█"
    assert words.sparkline([1], 5) == ""
    assert words.sparkline([2, 2], 5) == "▁▁"


def test_a_champion_without_games_against_rungs_has_no_number_anywhere() -> None:
    unanchored = Rung("model:5", 489, -1600, 2600, 4, anchored=False)
    now = dataclasses.replace(BUSY, ladder=(*BUSY.ladder[1:], unanchored))
    request = RunRequest("connect_four", Path("runs/a"), {}, "laptop", 1800.0)
    shown = "\n".join([*drawn(now, 110, 38), progress_line(now), summary(request, now)])
    assert "489" not in shown
    assert "champion 5 (not anchored)" in progress_line(now)
    assert "version 5, not anchored: no game against the ladder's rungs yet" in summary(request, now)
    assert row(now)["champion_elo"] is None


def test_an_older_anchored_version_is_shown_until_the_champion_is_anchored() -> None:
    ladder = (Rung("model:4", 700, 600, 800, 90, anchored=True), Rung("model:5", 489, -1600, 2600, 4, anchored=False))
    now = dataclasses.replace(BUSY, ladder=ladder)
    assert "champion 5 (version 4: 700 Elo, 600 to 800)" in progress_line(now)
    assert row(now)["champion_elo"] == 700


def test_the_margin_of_a_rating_is_shown_however_wide() -> None:
    now = dataclasses.replace(
        BUSY, ladder=(Rung("model:5", 73, -2039, 2186, 4, anchored=True), Rung("random", 0, 0, 0, 4, anchored=True))
    )
    assert any("73" in line and "2112" in line for line in drawn(now, 110, 38))
