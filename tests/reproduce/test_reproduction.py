"""A reproduction of tic-tac-toe in seconds: golden counts, interruption, report, page and command line."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from foreign_processes import ended

from laboratory.alphazero import HOURS
from laboratory.stage import run_stage
from zerofleet.cli import main
from zerofleet.cli.reproduce.drawings import _mean_net, draw_experiment
from zerofleet.cli.reproduce.page import html_page
from zerofleet.cli.reproduce.report import _rows, build_report
from zerofleet.cli.reproduce.results import StageResults
from zerofleet.cli.reproduce.running import Progress, Schedule, run_stages
from zerofleet.errors import InvalidRequest
from zerofleet.presets.theses.catalogue import load_thesis
from zerofleet.presets.theses.planning import plan
from zerofleet.storage.crash_points import VARIABLE
from zerofleet.strength.behaviour.tables import read_stored
from zerofleet.strength.claims.tallies import Tally

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[1] / "golden" / "reproduction_tic_tac_toe.json"
PLANNED = plan(load_thesis("self_test"), "tiny")
LEARNED = next(one for one in PLANNED if one.stage.id == "td.learned.0")


def counts(folder: Path) -> dict[str, Any]:
    """Return the scores of every tally by stage, without times."""
    results = StageResults(folder)
    return {one.stage.id: [[t.meeting, t.seat, t.at, dict(t.scores)] for t in results.tallies(one.stage)] for one in PLANNED}


def run_in_a_process(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "laboratory.stage", str(folder)],
        input=LEARNED.stage.model_dump_json(),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def test_the_counts_of_the_profile_tiny_are_those_of_the_golden_file(tiny):
    assert counts(tiny) == json.loads(GOLDEN.read_text())


def test_a_stage_killed_half_way_ends_with_the_figures_of_one_that_was_not(tiny, tmp_path):
    killed = run_in_a_process(tmp_path, **{VARIABLE: "trainer_checkpoint_before_rename:2"})
    assert killed.returncode == -signal.SIGKILL
    checkpoints = [entry.name for entry in (tmp_path / "networks" / LEARNED.stage.id).iterdir() if entry.name.isdigit()]
    assert checkpoints == ["00000001"]  # 200 of 600 games
    shares: list[float] = []
    result = asyncio.run(run_stage(LEARNED.stage, tmp_path, emit=lambda share, _: shares.append(share)))
    assert min(shares) > 1 / 3
    found = [[t["meeting"], t["seat"], t["at"], t["scores"]] for t in result["tallies"]]
    assert found == counts(tiny)[LEARNED.stage.id]


def test_the_report_has_a_verdict_with_its_evidence_for_every_claim(report):
    claims = {claim["text"]: claim for one in report["experiments"] for claim in one["claims"]}
    first = claims["comparison player in the first seat"]
    assert (first["verdict"], first["seats"], first["estimate"]["games"]) == ("matched", [1], 200)
    assert first["estimate"]["low"] <= 95.6 <= first["estimate"]["high"]
    assert claims["comparison player never loses in the second seat"]["verdict"] == "missed"
    long = claims["a claim about a longer training"]
    assert (long["verdict"], long["trained_games"]) == ("not run", 600)
    assert long["reason"] == "the claim is about 1,000,000 games of training, this profile has 600"
    assert long["estimate"]["games"] == 30
    short, (arm,) = (
        claims["a claim about a shorter training"],
        [arm for one in report["experiments"] for arm in one["arms"] if arm["name"] == "learned"],
    )
    assert [row["trained_games"] for row in arm["rows"]] == [200, 400, 600]
    assert (short["trained_games"], short["estimate"]) == (400, arm["rows"][1]["figures"]["won"])
    assert sum(report["verdicts"].values()) == len(claims)
    assert report["uncovered"][0]["thesis"] == "42"
    assert [one["command"] for one in report["experiments"]] == [
        f"zerofleet reproduce self_test --profile tiny --only {name}" for name in ("rules", "td")
    ]


def test_the_page_is_well_formed_and_refers_to_no_other_document(report):
    page = html_page(report)
    root = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))
    names = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert names.count("svg") == 2 + 4  # arms of two experiments; two tables of behaviour for each seat
    assert not {"script", "link", "img", "iframe", "object"} & set(names)
    identifiers = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
    assert len(identifiers) == len(set(identifiers))
    for element in root.iter():
        for name, value in element.attrib.items():
            if name.rpartition("}")[2] in {"href", "src"}:
                assert value.startswith("#")
                assert value[1:] in identifiers
    assert not re.search(r"@import|url\((?!#)", page)
    for claim in (claim for one in report["experiments"] for claim in one["claims"]):
        assert claim["text"] in page
    for bar in ("at least 95.6; more than 95.6", "at most 0.1; less than 0.1; narrow: 0.5", "at least 0; more than 0"):
        assert f"<td>{bar}</td>" in page


def test_the_report_has_the_tables_of_behaviour_that_a_meeting_names(report):
    rules, td = report["experiments"]
    assert [(one["seat"], one["table"]["name"]) for one in rules["behaviour"]] == [
        (seat, name) for seat in (1, 2) for name in ("lines", "placements")
    ]
    assert td["behaviour"] == []
    lines, placements = (read_stored(one["table"]) for one in rules["behaviour"][:2])
    counted = [sum(row[place] for row in lines.rows) for place in (4, 5, 6)]
    (won, drawn, lost), (row, *_) = counted, rules["arms"][0]["rows"]
    assert sum(counted) == lines.games == placements.games == 200
    assert [200 * row["figures"][name]["value"] / 100 for name in ("won", "drawn", "lost")] == pytest.approx([won, drawn, lost])
    assert placements.rows[0][2].value == pytest.approx((won + drawn) / 2)  # first, or sharing the first place
    page = html_page(report)
    assert page.count("<h3>Placements by seat</h3>") == 2
    assert f"<td>{lines.rows[0][0]}</td>" in page


def test_a_report_reads_each_table_of_behaviour_once(tiny, monkeypatch):
    results = StageResults(tiny)
    stored = [table for one in PLANNED for tally in results.read(one.stage)["tallies"] for table in tally["tables"]]
    read = []
    monkeypatch.setattr("zerofleet.cli.reproduce.results.read_stored", read.append)
    build_report(load_thesis("self_test"), "tiny", PLANNED, results, seeds=None)
    assert stored
    assert read == stored


def test_the_report_has_the_tables_of_self_play_of_the_first_seed(tiny, tmp_path):
    shutil.copytree(tiny / "results", tmp_path / "results")
    results, thesis = StageResults(tmp_path), load_thesis("self_test")
    (rules,) = (one for one in PLANNED if one.stage.id == "rules.rules.0")
    found = results.read(LEARNED.stage)
    (lines, _) = results.read(rules.stage)["tallies"][0]["tables"]
    results.keep(LEARNED.stage, {"tallies": found["tallies"], "tables": [lines]}, seconds=1.0)
    shown = build_report(thesis, "tiny", PLANNED, results, seeds=None)["experiments"][1]["behaviour"]
    assert [(one["arm"], one["meeting"], one["seed"], one["table"]) for one in shown] == [("learning", "self-play", 0, lines)]
    page = html_page(build_report(thesis, "tiny", PLANNED, results, seeds=None))
    assert "<p>learning: self-play, seed 0, 200 games.</p>" in page


def test_a_count_has_no_interval_on_the_page(report):
    claim = next(claim for one in report["experiments"] for claim in one["claims"] if claim["estimate"])
    claim["estimate"] |= {"value": 3187.4, "low": 3187.4, "high": 3187.4, "interval": "games"}
    assert "3,187.4 (3,187.4 to 3,187.4)</td>" in html_page(report)
    claim["estimate"]["interval"] = "count"
    assert "3,187.4</td>" in html_page(report)


def test_the_page_shows_the_turns_of_rock_paper_scissors_and_of_no_other_game(report):
    row = report["experiments"][0]["arms"][0]["rows"][0]
    assert "of 100 turns" not in html_page(report)
    shares = dict(zip(("turns won", "turns drawn", "turns lost"), (32.5, 33.0, 34.5), strict=True))
    row["figures"] |= {name: {"value": value} for name, value in shares.items()}
    assert "<br/>of 100 turns 32.5 won, 33.0 drawn, 34.5 lost</td>" in html_page(report)


@pytest.mark.parametrize(("meetings", "seats_are_joined"), [(4, False), (5, True)])
def test_lines_of_seats_are_joined_where_there_are_too_many(meetings, seats_are_joined):
    net = {"value": 10.0, "low": 0.0, "high": 20.0}
    rows = [
        {"meeting": f"m{number}", "seat": seat, "trained_games": at, "games": seat, "figures": {"net": net}}
        for number in range(meetings)
        for seat in (1, 2, 3)
        for at in (100, 200)
    ]
    drawn = draw_experiment({"arms": [{"name": "a", "label": "arm", "rows": rows}]}, "f0")
    assert ("arm: m0, seat 1<" in drawn) == (not seats_are_joined)
    assert ("arm: m0<" in drawn) == seats_are_joined
    assert ("mean of the seats" in drawn) == seats_are_joined
    assert drawn.count("arm: m") == (meetings if seats_are_joined else 3 * meetings)


def test_the_joined_line_is_the_mean_over_games():
    nets = [
        {"figures": {"net": {"value": value}}, "games": games, "trained_games": 5} for value, games in ((10.0, 1), (40.0, 2))
    ]
    assert _mean_net(nets, 5) == pytest.approx(30.0)


def test_the_band_of_a_line_is_at_the_places_of_its_judgements_in_any_order():
    nets = {500: (-10.0, -5.0), 700: (5.0, 10.0), 600: (80.0, 90.0)}  # the last judgement is of a seed with fewer games
    rows = [
        {
            "meeting": "m",
            "seat": 1,
            "trained_games": at,
            "games": 1,
            "figures": {"net": {"value": low, "low": low, "high": high}},
        }
        for at, (low, high) in nets.items()
    ]
    drawn = [
        draw_experiment({"arms": [{"name": "a", "label": "arm", "rows": order}]}, "f0")
        for order in (rows, sorted(rows, key=_place))
    ]
    assert drawn[0] == drawn[1]


def test_judgements_with_and_without_a_version_before_are_one_row_with_those_of_other_seeds():
    judged = {0: (32, 64, 96), 1: (30, 60, 90)}  # games of training; the first judgement of seed 1 met no version before
    tallies = [
        Tally(meeting=meeting, subject="a", opponent="b", seat=1, seed=seed, trained=True, at=at, scores={"1": 1})
        for seed, places in judged.items()
        for at in places
        for meeting in ("random", "previous")
        if (meeting, at) != ("previous", 30)
    ]
    found = [(row["trained_games"], row["seeds"]) for row in _rows(tallies) if row["meeting"] == "previous"]
    assert found == [(32, [0]), (62, [0, 1]), (93, [0, 1])]


def _place(row: dict[str, Any]) -> int:
    return int(row["trained_games"])


def test_an_incomplete_reproduction_has_claims_that_were_not_run(tiny, tmp_path):
    shutil.copytree(tiny, tmp_path / "part")
    (tmp_path / "part" / "results" / "td.still.0.json").unlink()
    found = build_report(load_thesis("self_test"), "tiny", PLANNED, StageResults(tmp_path / "part"), seeds=None)
    gain = next(claim for one in found["experiments"] for claim in one["claims"] if claim["text"] == "learning gains")
    assert (gain["verdict"], gain["estimate"], gain["reason"]) == ("not run", None, "its stages were not run")
    assert found["experiments"][1]["open_stages"] == ["td.still.0"]


def test_a_training_that_diverges_is_a_verdict_and_stops_no_other_stage(tiny, tmp_path):
    shutil.copytree(tiny, tmp_path / "part")
    results = StageResults(tmp_path / "part")
    td = LEARNED.stage.td.model_copy(update={"learning_rate": 1e300})
    shutil.rmtree(results.folder / "networks" / LEARNED.stage.id)
    found = asyncio.run(run_stage(LEARNED.stage.model_copy(update={"td": td}), results.folder, emit=lambda *_: None))
    assert (found["tallies"], "lower td_lambda.learning_rate" in found["diverged"]) == ([], True)
    results.keep(LEARNED.stage, found, seconds=1.0)
    report = build_report(load_thesis("self_test"), "tiny", PLANNED, results, seeds=None)
    claims = {claim["text"]: claim for one in report["experiments"] for claim in one["claims"]}
    assert [claims[text]["verdict"] for text in ("learning gains", "comparison player in the first seat")] == [
        "diverged",
        "matched",
    ]
    assert claims["learning gains"]["reason"].startswith("td.learned.0: weights are not finite")
    assert report["verdicts"]["diverged"] == 3
    assert "Diverged: td.learned.0" in html_page(report)


@pytest.mark.parametrize(
    ("profile", "hours", "wanted"),
    [("full", 9.0, "beaten"), ("full", 20.0, "matched"), ("full", 40.0, "missed"), ("quick", 0.3, "not run")],
)
def test_the_hours_of_the_star_of_37_are_decided_by_the_profile_full(tmp_path, profile, hours, wanted):
    thesis, results = load_thesis("chinese_checkers_3p"), StageResults(tmp_path)
    planned = plan(thesis, profile, only=["training"])
    for one in planned:
        measures = {HOURS: hours + 0.1 * one.stage.seed}
        results.keep(one.stage, {"tallies": [], "curve": [{"games": 8_100}], "measures": measures}, seconds=1.0)
    report = build_report(thesis, profile, planned, results, seeds=None)
    claim = next(claim for one in report["experiments"] for claim in one["claims"] if claim["figure"] == HOURS)
    assert claim["verdict"] == wanted
    assert (profile == "full") == (claim["reason"] == "")


def test_a_stage_that_needs_a_diverged_network_is_not_run(tmp_path):
    planned = next(one for one in plan(load_thesis("connect_four_td"), "quick", only=["search"]) if one.needs)
    schedule, results = Schedule(waiting=[planned]), StageResults(tmp_path)
    schedule.note(planned.needs[0], "an update is not finite")
    seen: list[float] = []
    asyncio.run(run_stages(schedule, results, jobs=1, on_progress=lambda _, share, __: seen.append(share)))
    assert seen == [0.0, 1.0]  # no earlier call has done a part of it
    assert results.diverged(planned.stage) == f"it needs {planned.needs[0]}: an update is not finite"
    assert planned.stage.id in schedule.complete


def test_the_time_left_follows_from_the_work_of_this_call():
    planned = plan(load_thesis("connect_four_td"), "quick", only=["search"])[0]
    progress = Progress(2.0 * planned.seconds)
    assert progress.left_s(0.0) is None
    progress.note(planned, 0.5)  # an earlier call came this far
    assert progress.left_s(1.0) is None
    progress.note(planned, 0.75)
    assert progress.done_s == 0.75 * planned.seconds
    # a quarter of the stage took 60 s, and five quarters are left
    assert progress.left_s(60.0) == pytest.approx(300.0)
    fresh = Progress(2.0 * planned.seconds)
    fresh.note(planned, 0.0)
    fresh.note(planned, 1.0)  # a stage that emits nothing until its end
    assert fresh.left_s(60.0) == pytest.approx(60.0)


def test_results_of_other_settings_are_refused(tiny, tmp_path):
    shutil.copytree(tiny, tmp_path / "copy")
    results = StageResults(tmp_path / "copy")
    changed = LEARNED.stage.model_copy(update={"opening_plies": 1})
    with pytest.raises(InvalidRequest, match="with other settings"):
        results.read(changed)
    results.begin(LEARNED.stage)
    with pytest.raises(InvalidRequest, match=r"holds stage td\.learned\.0 with other settings"):
        results.require_settings([changed])


def test_the_folder_of_another_thesis_is_refused_and_left_as_it_is(tmp_path, capsys):
    report = tmp_path / "report.json"
    report.write_text('{"thesis": "self_test"}')
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "abalone", "--only", "classical.depth1", "--dir", str(tmp_path)])
    assert ended.value.code != 0
    said = " ".join(capsys.readouterr().err.split())
    assert f"{tmp_path} holds the reproduction of self_test; give another folder with --dir" in said
    assert report.read_text() == '{"thesis": "self_test"}'


def test_no_stage_begins_after_the_deadline_nor_before_the_stages_that_it_needs():
    connect_four = plan(load_thesis("connect_four_td"), "quick", only=["search"])
    waiting = Schedule(waiting=list(reversed(connect_four)))
    assert waiting.next() is connect_four[0]
    assert waiting.next() is None
    waiting.complete.add(connect_four[0].stage.id)
    assert [waiting.next() for _ in connect_four] == [*reversed(connect_four[1:]), None]
    late = Schedule(waiting=list(connect_four), deadline_s=0.0)
    assert late.next() is None
    assert late.left_out == [one.stage.id for one in connect_four]


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", *words])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def test_a_complete_reproduction_is_reported_again_without_running(tiny, tmp_path, capsys):
    shutil.copytree(tiny, tmp_path / "done")
    code, out, err = call(capsys, "self_test", "--profile", "tiny", "--dir", str(tmp_path / "done"), "--json")
    assert code == 0, err
    assert json.loads(out) == json.loads((tmp_path / "done" / "report.json").read_text())
    assert "<svg" in (tmp_path / "done" / "report.html").read_text()


def test_a_terminated_reproduction_ends_its_stages_and_reports_the_complete_ones(tiny, tmp_path, capsys, monkeypatch):
    shutil.copytree(tiny, tmp_path / "part")
    (tmp_path / "part" / "results" / "td.still.0.json").unlink()
    began: list[asyncio.subprocess.Process] = []
    begin = asyncio.create_subprocess_exec

    async def begun(*words: Any, **options: Any) -> asyncio.subprocess.Process:
        began.append(await begin(*words, **options))
        os.kill(os.getpid(), signal.SIGTERM)
        return began[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", begun)
    code, _, _ = call(capsys, "self_test", "--profile", "tiny", "--dir", str(tmp_path / "part"))
    assert code == 130
    assert [process.returncode for process in began] == [-signal.SIGKILL]
    report = json.loads((tmp_path / "part" / "report.json").read_text())
    assert [one["open_stages"] for one in report["experiments"]] == [[], ["td.still.0"]]


KILLED = """
import asyncio, os, subprocess
from pathlib import Path
from zerofleet.cli.reproduce import running
from zerofleet.presets.theses.catalogue import load_thesis
from zerofleet.presets.theses.planning import plan

async def begun(*words, **options):
    print(subprocess.Popen(words, stdout=subprocess.DEVNULL).pid, flush=True)  # it waits for input, which stays open
    os.kill(os.getpid(), 9)

asyncio.create_subprocess_exec = begun
asyncio.run(running._run(plan(load_thesis("self_test"), "tiny")[0], Path("."), print))
"""


def test_a_killed_reproduction_takes_its_stages_with_it(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as reproduction:
        assert reproduction.stdout is not None
        stage = int(reproduction.stdout.readline())
        assert reproduction.wait() == -signal.SIGKILL
        assert ended(stage, timeout_s=120.0), "the stage goes on"


BENCH = """
import asyncio, os, subprocess
from laboratory.benches import run_bench
from zerofleet.presets.theses.stages import BenchStage

async def begun(*words, **options):
    print(subprocess.Popen(words, stdout=subprocess.DEVNULL).pid, flush=True)
    os.kill(os.getpid(), 9)

asyncio.create_subprocess_exec = begun
asyncio.run(run_bench(BenchStage(id="bench.bench.0", seed=0, words=("bench", "perft", "connect_four", "--depth", "30"))))
"""


def test_a_killed_stage_takes_its_benchmark_with_it(tmp_path):
    with subprocess.Popen([sys.executable, "-c", BENCH], stdout=subprocess.PIPE, text=True, cwd=tmp_path) as stage:
        assert stage.stdout is not None
        pid = int(stage.stdout.readline())
        assert stage.wait() == -signal.SIGKILL
    if not ended(pid, timeout_s=120.0):
        os.kill(pid, signal.SIGKILL)
        pytest.fail("the benchmark goes on")


def test_an_experiment_runs_alone_from_the_command_line(tmp_path, capsys):
    words = ("self_test", "--profile", "tiny", "--only", "rules", "--dir", str(tmp_path / "one"))
    code, out, err = call(capsys, *words)
    assert code == 0, err
    assert "comparison player in the first seat" in out
    assert sorted(path.name for path in (tmp_path / "one" / "results").iterdir()) == ["rules.rules.0.json"]


@pytest.mark.parametrize("content", ["{", '{"format": 1, "fingerprint": "of another release"}'])
def test_a_result_that_the_report_cannot_read_is_refused_before_any_stage_runs(tiny, tmp_path, capsys, monkeypatch, content):
    shutil.copytree(tiny, tmp_path / "part")
    (tmp_path / "part" / "results" / "rules.rules.0.json").write_text(content)
    (tmp_path / "part" / "results" / "td.still.0.json").unlink()
    began: list[Any] = []
    monkeypatch.setattr("zerofleet.cli.reproduce.command._run", lambda planned, *_, **__: began.append(planned) or [])
    code, _, err = call(capsys, "self_test", "--profile", "tiny", "--only", "td", "--dir", str(tmp_path / "part"))
    assert (code, began) == (2, [])
    assert "rules.rules.0.json" in err


def test_the_list_has_costs_and_claims_without_an_experiment(capsys):
    code, out, _ = call(capsys, "--list", "--json")
    listed = json.loads(out)
    assert code == 0
    assert {one["thesis"] for one in listed["experiments"]} == set(listed["uncovered"])
    assert all(cost["minutes"] > 0 for one in listed["experiments"] for cost in one["costs"].values())
    assert call(capsys)[1].splitlines()[0].split()[:2] == ["thesis", "experiment"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("conect_four_td",), "no thesis is called 'conect_four_td'; do you mean connect_four_td?"),
        (("connect_four_td", "--only", "nose"), "connect_four_td has no experiment 'nose'; do you mean noise?"),
        (("connect_four_td", "--profile", "fast"), "'fast' is not a profile; choose from quick, full, tiny"),
        (("abalone", "--profile", "tiny"), "abalone has nothing to run in profile tiny"),
    ],
)
def test_a_wrong_command_line_is_one_line_with_the_next_step(words, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *words)
    assert (code, out) == (2, "")
    assert message in err.replace("\n", " ")
    assert not any(tmp_path.iterdir())
