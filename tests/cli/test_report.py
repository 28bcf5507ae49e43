"""`zerofleet report`: one HTML file with the figures of the other commands, for any state of a run and with any names."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

import games
from zerofleet.cli.report.charts import Line, line_chart
from zerofleet.cli.report.curve_charts import curve_charts
from zerofleet.cli.report.markup import Markup, el, table
from zerofleet.cli.report.strips import draw_strips
from zerofleet.contracts.gate_events import StatusChanged, Submitted, Tallied
from zerofleet.contracts.played import REDUCED
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.contracts.records import encode_record
from zerofleet.contracts.records.samples import random_game
from zerofleet.library.accuracy_record import Accuracy, Figures, MeasuredAccuracy, Result, ShareValue, append_accuracy
from zerofleet.library.run_files import OpenRun
from zerofleet.library.series import Axes, RunSeries, Series
from zerofleet.presets.commented import commented
from zerofleet.presets.experiment import Experiment
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.runs import RunDirectory, RunPaths
from zerofleet.strength.matches import SequentialTest
from zerofleet.strength.ratings import Sprt
from zerofleet.supervisor.words import UNKNOWN
from zerofleet.testing.gate_matches import sample_match
from zerofleet.testing.models import sample_files, sample_manifest

MODEL = "tic_tac_toe"
GAME = games.make(MODEL)
HOSTILE = "<img src=x onerror=alert(1)>&\"'"
MOST_BYTES = 5_000_000


class Page(HTMLParser):
    """Elements and texts of a page; an element that is not closed is a fault."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def make_run(root: Path, reason: str = "promotion") -> None:
    """Make a stopped run with games, metrics, two versions, their match and a rating."""
    with RunDirectory.create_or_open(root, MODEL, {}, preset="tiny", seed=7) as run:
        with GameLog.open(run.paths.replay, writer=True) as log:
            played = [random_game(GAME, number, version=1) for number in range(9)]
            uids = [f"{number:04x}" + "ab" * 14 for number in range(9)]
            log.append(
                [
                    (uid, encode_record(one, worker_id=reason, uid=uid, finished_at_ms=1_795_399_200_000))
                    for uid, one in zip(uids, played, strict=True)
                ]
            )
        store = DirectoryStore(run.paths.models)
        for version in (1, 2):
            assert store.publish(MODEL, sample_files(float(version)), sample_manifest()) == version
            store.write_champion(MODEL, version, epoch=version, reason=f"{reason} {version}")
        settings = {"gate.mode": "sprt", "search.simulations": "21"}
        run.paths.experiment.write_text(commented(Experiment(MODEL, "tiny", 7, settings=settings)))
        rule = SequentialTest(Sprt(-25.0, 50.0))
        first = (Submitted(version=1, manifest_sha256="0" * 64), StatusChanged(version=1, status=CandidateStatus.PROMOTED))
        status = CandidateStatus.PROMOTED
        match = sample_match(GAME, rule, match_id="gate/2/1/1", version=2, opponent=1, groups=4, status=status)
        met = Tallied(first="model:1", second="random", points=15, games=20)
        EventJournal(run.paths.gatekeeper / JOURNAL_FILE, model=MODEL).rewrite([*first, *match, met])
        rows = {
            "trainer": [
                {"time": 1_795_399_200.0 + 60 * i, "step": 10 * i, "losses/total": 2.0 / (i + 1), "charts/games_ever": float(i)}
                for i in range(8)
            ],
            "run": [{"at": f"2026-11-23T02:{i:02}:00+00:00", "elapsed_s": 60.0 * i, "games_stored": 2 * i} for i in range(8)],
        }
        for name, lines in rows.items():
            (run.paths.metrics / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run directory that tests only read."""
    root = tmp_path_factory.mktemp("report") / "first"
    make_run(root)
    return root


def written(zerofleet, run: Path, out: Path) -> Page:
    outcome = zerofleet("report", str(run), "--out", str(out))
    assert (outcome.code, f"wrote {out}" in outcome.err) == (0, True)
    assert out.stat().st_size < MOST_BYTES
    return Page(out.read_text("utf-8"))


def test_the_page_is_one_file_without_scripts_and_addresses(zerofleet, run, tmp_path):
    page = written(zerofleet, run, tmp_path / "page.html")
    names = [name for name, _ in page.found]
    assert not {"script", "link", "iframe", "object"} & set(names)
    addresses = [value for _, attributes in page.found for name, value in attributes.items() if name in ("src", "href")]
    assert {address.partition(":")[0] for address in addresses if not address.startswith("#")} == {"data"}
    (policy,) = [attributes["content"] for _, attributes in page.found if "http-equiv" in attributes]
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"url\(|@import|https?://", (tmp_path / "page.html").read_text("utf-8"))


def test_the_page_has_the_figures_of_the_other_commands(zerofleet, run, tmp_path):
    text = written(zerofleet, run, tmp_path / "page.html").text
    status = zerofleet("status", str(run), "--json").json()
    on_run = ("--run-dir", str(run), "--json")
    champion, first = zerofleet("models", "list", MODEL, *on_run).json()["versions"]
    newest = zerofleet("games", "list", MODEL, *on_run).json()["games"][0]
    rating = f"{first['elo']:.0f} {first['elo_low']:.0f} to {first['elo_high']:.0f}"
    assert f"version {status['champion']}" in text
    assert f"Games stored {status['games_stored']:,}" in text
    assert f"version 1 {rating} " in text
    assert "not anchored" in text  # version 2, which met version 1 alone
    match = champion["match"]
    assert f"2 : 1 gate match promoted +{match['wins']} ={match['draws']} -{match['losses']}" in text
    assert f"{newest['index']} {newest['uid'][:12]} {newest['plies']}" in text
    assert "search.simulations 21" in text
    assert "zerofleet models list tic_tac_toe" in text


def test_recorded_accuracy_is_in_the_report_and_in_its_curves(zerofleet, run, tmp_path):
    copied = shutil.copytree(run, tmp_path / "measured")
    assert "No version was measured against perfect play" in written(zerofleet, run, tmp_path / "none.html").text
    kept = ShareValue(count=18, of=20, share=0.9, low=0.7, high=0.97)
    figures = Figures(kept=kept, decided=kept.model_copy(update={"of": 24, "share": 0.75}), exact=kept, mean_lost=0.25)
    results = (Result(source="random", mode="policy alone", all=figures, plies=()),)
    about = {
        "player": "model:2",
        "game": MODEL,
        "parameters": {},
        "seed": 5,
        "unit": "points",
        "first_ply": 3,
        "simulations": 40,
    }
    measured = MeasuredAccuracy(
        version=2, measured_at=datetime(2026, 11, 23, tzinfo=UTC), accuracy=Accuracy(**about, results=results)
    )
    append_accuracy(RunPaths(copied), measured)
    page = written(zerofleet, copied, tmp_path / "page.html")
    assert "random 20 positions, seed 5, from ply 3 policy alone 20 90.0 % 70.0 to 97.0 24 75.0 %" in page.text
    assert f"zerofleet accuracy model:2 --game {MODEL} --run-dir" in page.text
    assert "--positions 20 --first-ply 3 --simulations 40 --seed 5 --json" in page.text
    report = zerofleet("report", str(copied), "--json").json()
    assert report["accuracy"] == [measured.model_dump(mode="json")]
    (series,) = [one for one in report["curves"]["series"] if one["group"] == "accuracy"]
    assert (series["label"], series["values"]) == ("policy alone, random games: 20 positions, seed 5, from ply 3", [0.75])
    assert len(report["curves"]["axes"]["accuracy"]["step"]) == 1
    of_1500 = measured.accuracy.model_copy(update={"wanted_positions": 1_500})
    append_accuracy(RunPaths(copied), measured.model_copy(update={"accuracy": of_1500}))
    assert "--positions 1500 --first-ply 3 --simulations 40" in written(zerofleet, copied, tmp_path / "page.html").text


def test_a_table_of_accuracy_has_the_rows_of_the_newest_versions(zerofleet, run, tmp_path, monkeypatch):
    monkeypatch.setattr("zerofleet.cli.report.accuracy_table.MOST_ROWS", 2)
    copied = shutil.copytree(run, tmp_path / "measured")
    share = ShareValue(count=18, of=20, share=0.9, low=0.7, high=0.97)
    figures = Figures(kept=share, decided=share, exact=share, mean_lost=0.25)
    about = {"game": MODEL, "parameters": {}, "seed": 0, "unit": "points", "first_ply": 0, "simulations": 0}
    for version in (1, 2, 3):
        results = (Result(source="file", mode=f"mode {version}", search="root=gumbel", all=figures, plies=()),)
        found = Accuracy(player=f"model:{version}", **about, results=results)
        measured = MeasuredAccuracy(version=version, measured_at=datetime(2026, 11, 23, tzinfo=UTC), accuracy=found)
        append_accuracy(RunPaths(copied), measured)
    text = written(zerofleet, copied, tmp_path / "page.html").text
    assert "2 of 3 measurements, those of the newest versions" in text
    assert tuple(f"positions mode {number} (root=gumbel)" in text for number in (1, 2, 3)) == (False, True, True)
    assert "--from FILE --simulations 0" in text


def test_json_has_the_values_of_the_other_commands(zerofleet, run):
    report = zerofleet("report", str(run), "--json").json()
    status = zerofleet("status", str(run), "--json").json()
    assert report["overview"] == status.pop("overview")
    assert report["run"] == status
    on_run = ("--run-dir", str(run), "--json")
    assert report["curves"] == zerofleet("curves", *on_run, "--points", "240").json()
    assert report["models"] == zerofleet("models", "list", MODEL, *on_run).json()
    assert report["games"] == zerofleet("games", "list", MODEL, "--limit", "12", *on_run).json()
    seats = {one["name"]: one["values"] for one in report["curves"]["series"] if one["group"] == "seats"}
    assert sorted(seats) == ["draws", "seat_1", "seat_2"]
    assert sum(seats["seat_1"] + seats["seat_2"]) == pytest.approx(1.0)  # one window of 9 games
    names = {one["name"]: one for one in report["settings"]["changed"]}
    assert names["search.simulations"]["value"] == "21"
    assert names["search.simulations"]["preset_value"] != "21"


def test_names_from_outside_stay_text(zerofleet, tmp_path):
    root = tmp_path / HOSTILE
    make_run(root, reason=HOSTILE)
    page = written(zerofleet, root, tmp_path / "page.html")
    assert HOSTILE in page.text
    assert not [attributes for name, attributes in page.found if name == "img" and attributes.get("src") == "x"]
    assert "<img src=x" not in (tmp_path / "page.html").read_text("utf-8")


def test_a_run_that_has_just_begun_has_a_page_that_says_what_is_missing(zerofleet, tmp_path):
    with RunDirectory.create_or_open(tmp_path / "new", MODEL, {}, preset="tiny", seed=1):
        text = written(zerofleet, tmp_path / "new", tmp_path / "page.html").text
    for missing in ("none yet", "has not written metrics", "there are no ratings", "No model is stored", "No match has been"):
        assert missing in text
    assert "no games are stored" in text or "no game is stored" in text
    assert "settings of the run are unknown" in text


def test_a_run_whose_service_is_alive_says_so(zerofleet, run, tmp_path):
    root = shutil.copytree(run, tmp_path / "live")
    told = {"service": "trainer", "pid": os.getpid(), "address": "127.0.0.1:1", "metrics_port": 9}
    RunPaths(root).announce("trainer").write_text(json.dumps(told))
    assert "live alive" in written(zerofleet, root, tmp_path / "page.html").text


def test_a_folder_that_is_no_run_is_refused_with_one_line(zerofleet, tmp_path):
    outcome = zerofleet("report", str(tmp_path))
    assert (outcome.code, "is not a run directory" in outcome.err) == (2, True)


def test_boards_stop_where_their_share_of_the_file_is_full(run):
    opened = OpenRun("first", RunPaths(run))
    rows = opened.games(limit=3, before=None).games
    strips = draw_strips(opened, rows)
    opened.close()
    assert len(strips) == 3
    assert strips[0].boards[0][0] == "start"
    assert strips[0].boards[-1][0] == f"{rows[0].plies}. {rows[0].moves[-1]}"
    one = sum(len(picture) for _, picture in strips[0].boards)
    assert draw_strips(opened, rows, most_bytes=one) == strips[:1]
    opened.close()


def test_text_is_escaped_and_markup_is_not():
    assert el("p", "<b>", el("i", "&"), title='"') == '<p title="&quot;">&lt;b&gt;<i>&amp;</i></p>'
    assert isinstance(table("x", ["a", ">b"], [("<", Markup("<br/>"))]), Markup)
    assert '<td>&lt;</td><td class="n"><br/></td>' in table("x", ["a", ">b"], [("<", Markup("<br/>"))])


def test_a_chart_has_its_newest_values_in_words_and_none_without_points():
    line = Line("total", (0.0, 1.0, None, 2.0), (3.0, None, 9.0, 0.5))
    assert line.points() == [(0.0, 3.0), (2.0, 0.5)]
    assert 'aria-label="Loss; last: total 0.5"' in line_chart("Loss", [line])
    assert line_chart("Loss", [Line("total", (0.0,), (None,))]) is None


def test_a_chart_of_one_version_shows_it_as_a_dot_on_its_own_tick():
    drawn = line_chart("Elo", [Line("champions", (7.0,), (190.0,))], levels=[("random", 0.0)])
    assert drawn.count("<circle") == 1
    assert ">7</text>" in drawn
    assert ">random</text>" in drawn


def test_a_curve_without_a_value_in_the_rows_that_are_drawn_stands_beside_the_others():
    axes = Axes(step=(1.0, 2.0), games=(4.0, 8.0), hours=(0.1, 0.2))
    about = {"group": "trainer", "unit": "", "chart": "Loss"}
    series = (
        Series(name="total", label="total", values=(3.0, 2.0), **about),
        Series(name="rare", label="rare", values=(None, None), **about),
    )
    page = Page("".join(curve_charts(RunSeries(axes={"trainer": axes}, series=series, promotions=()))))
    assert "total 2" in page.text
    assert f"rare {UNKNOWN}" in page.text


def test_boards_of_fast_and_reduced_searches_are_marked_with_a_legend_where_there_are_any(zerofleet, run, tmp_path):
    legend = "(fast): move of a fast search"
    assert legend not in written(zerofleet, run, tmp_path / "full.html").text
    copied, played = Path(shutil.copytree(run, tmp_path / "mixed")), random_game(GAME, 3, version=1)
    searched = tuple(replace(one, flags=0 if one.ply % 2 else REDUCED) for one in played.searched)
    with GameLog.open(RunPaths(copied).replay, writer=True) as log:
        one = encode_record(replace(played, searched=searched), worker_id="w", uid="f" * 32, finished_at_ms=0)
        log.append([("f" * 32, one)])
    page = written(zerofleet, copied, tmp_path / "mixed.html")
    assert legend in page.text
    captions = [text for text in page.texts if re.fullmatch(r"\d\. [abc]\d \((fast|reduced)\)", text)]
    assert {"(fast)", "(reduced)"} == {caption.split()[-1] for caption in captions}
    assert {attributes["alt"] for name, attributes in page.found if name == "img"} >= set(captions)


def test_the_report_has_the_losses_of_extra_heads_where_the_run_has_them(zerofleet, run, tmp_path):
    assert "Losses of extra heads" not in written(zerofleet, run, tmp_path / "without.html").text
    copied = Path(shutil.copytree(run, tmp_path / "heads"))
    with (copied / "metrics" / "trainer.jsonl").open("a") as file:
        file.write(json.dumps({"time": 1_795_399_900.0, "step": 90, "losses/opponents": 1.5, "charts/recall_6": 0.75}) + "\n")
    text = written(zerofleet, copied, tmp_path / "with.html").text
    assert re.search("Losses of extra heads [^A-Z]* opponents 1.5 Held-out games [^A-Z]* move among the first six 75 %", text)


def test_an_axis_of_whole_numbers_has_ticks_at_whole_numbers():
    drawn = line_chart("Elo", [Line("champions", (1.0, 2.0, 3.0), (5.0, 6.0, 7.0))])
    ticks = re.findall(r'class="x">([^<]+)<', drawn)
    assert ticks == ["1", "2", "3"]


def test_a_file_in_a_missing_folder_is_refused_before_the_run_is_read(zerofleet, run, tmp_path, monkeypatch):
    monkeypatch.delattr("zerofleet.cli.report.command.read_report")
    path = tmp_path / "none" / "page.html"
    outcome = zerofleet("report", str(run), "--out", str(path))
    assert outcome.code == 2
    assert outcome.err.startswith(f"error: {path} cannot be written: {path.parent} is not a directory")
