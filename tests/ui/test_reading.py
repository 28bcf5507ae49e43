"""Pages and API that read runs: the same values as the command line, from files alone, without torch."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from ui.app import create_app
from ui.catalogue import Catalogue, UnknownRun
from ui.live import LiveRuns
from zerofleet.cli import main
from zerofleet.contracts.gate_events import Tallied
from zerofleet.contracts.promotions import Candidate, CandidateStatus, MatchReport
from zerofleet.service.compilation_note import Compilation, note_path, write_note
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.storage.runs import RunDirectory
from zerofleet.supervisor.observer import Observer, _verdict
from zerofleet.supervisor.overview import live_services
from zerofleet.supervisor.readings import Readings


async def test_the_list_of_runs_has_game_champion_and_trends(client):
    listed = (await client.get("/api/v1/runs")).json()
    (row,) = listed["runs"]
    assert (row["name"], row["game"], row["preset"]) == ("golden", "tic_tac_toe", "tiny")
    assert (row["champion"], row["is_alive"]) == (2, False)
    assert (row["step"], row["games_stored"]) == (110, 11)
    assert (row["elo"], row["rated_version"]) == (None, None)  # no rating was recorded
    assert len(row["loss_trend"]) == 12
    alone = (await client.get("/api/v1/runs/golden")).json()
    assert alone.pop("overview") == (await client.get("/api/v1/runs/golden/overview")).json()
    assert alone == row


async def test_a_rating_is_that_of_zerofleet_runs_and_names_its_version(runs, tmp_path, capsys):
    rated = shutil.copytree(runs / "golden", tmp_path / "rated")
    journal = EventJournal(rated / "gatekeeper" / JOURNAL_FILE, model="tic_tac_toe")
    journal.append(Tallied(first="model:1", second="random", points=15, games=20))  # the champion is version 2
    with pytest.raises(SystemExit):
        main(["runs", "--runs", str(tmp_path), "--json"])
    (told,) = json.loads(capsys.readouterr().out)["runs"]
    (row,) = Catalogue(tmp_path, None).runs().runs
    shared = ("champion", "rated_version", "elo", "elo_low", "elo_high", "games_stored")
    assert {name: getattr(row, name) for name in shared} == {name: told[name] for name in shared}
    assert (row.champion, row.rated_version) == (2, 1)


async def test_a_directory_that_is_no_run_is_listed_with_its_fault(runs, tmp_path):
    shutil.copytree(runs / "golden", tmp_path / "sound")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text('{"schema": 99}')
    listed = Catalogue(tmp_path, None).runs()
    assert [row.name for row in listed.runs] == ["sound"]
    assert [fault.name for fault in listed.unreadable] == ["broken"]
    assert "schema 99" in listed.unreadable[0].fault


def test_a_link_to_a_run_elsewhere_of_the_same_name_as_another_one_hides_neither(runs, tmp_path):
    for place in ("folder/a", "archive/a"):
        shutil.copytree(runs / "golden", tmp_path / place)
    (tmp_path / "folder" / "former").symlink_to(tmp_path / "archive" / "a", target_is_directory=True)
    catalogue = Catalogue(tmp_path / "folder", None)
    assert sorted(row.name for row in catalogue.runs().runs) == ["a", "former"]
    assert catalogue.get("former").paths.root == tmp_path / "folder" / "former"
    catalogue.close()


@pytest.mark.skipif(os.name != "posix", reason="names of other systems are text")
def test_a_directory_whose_name_is_no_text_is_listed_with_its_fault(tmp_path):
    directory = tmp_path / os.fsdecode(b"r\xff")
    directory.mkdir()
    (directory / "run.json").write_text("{}")
    listed = Catalogue(tmp_path, None).runs()
    assert [fault.name for fault in listed.unreadable] == ["r\\xff"]
    assert "is not text" in json.loads(listed.model_dump_json())["unreadable"][0]["fault"]


def test_the_runs_that_were_looked_at_last_stay_open(runs, tmp_path):
    for name in "abc":
        shutil.copytree(runs / "golden", tmp_path / name)
    catalogue = Catalogue(tmp_path, None, most_open=2)
    first = catalogue.get("a")
    assert first.stored("0001")[0] == 1
    assert catalogue.get("a") is first
    assert catalogue.get("b").name == "b"
    assert catalogue.get("a") is first
    other = catalogue.get("b")
    assert [row.name for row in catalogue.runs().runs] == ["a", "b", "c"]  # opened in turn
    assert catalogue.get("c") is catalogue.get("c")
    assert catalogue.get("a") is not first
    assert catalogue.get("a").stored("0001")[0] == 1
    assert other.name == "b"
    catalogue.close()


def test_a_run_that_was_made_again_is_opened_again(runs, tmp_path):
    shutil.copytree(runs / "golden", tmp_path / "a")
    catalogue = Catalogue(tmp_path, None)
    before = catalogue.get("a")
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(UnknownRun):
        catalogue.get("a")
    shutil.copytree(runs / "golden", tmp_path / "a")
    about = json.loads((tmp_path / "a" / "run.json").read_text())
    (tmp_path / "a" / "run.json").write_text(json.dumps({**about, "seed": 77}))
    assert (before.header.seed, catalogue.get("a").header.seed) == (1, 77)
    catalogue.close()


def open_files(folder):
    return [link for link in Path("/proc/self/fd").iterdir() if str(folder) in str(Path(os.path.realpath(link)))]


def test_the_files_of_a_deleted_run_are_closed(runs, tmp_path):
    shutil.copytree(runs / "golden", tmp_path / "a")
    catalogue = Catalogue(tmp_path, None)
    assert catalogue.get("a").stored("0001")[0] == 1
    assert open_files(tmp_path)
    shutil.rmtree(tmp_path / "a")
    assert catalogue.runs().runs == ()
    assert not open_files(tmp_path)


def test_a_run_that_is_closed_while_a_request_reads_it_leaves_no_file_open(runs, tmp_path):
    shutil.copytree(runs / "golden", tmp_path / "a")
    catalogue = Catalogue(tmp_path, None)
    held = catalogue.get("a")
    catalogue.close()
    assert held.stored("0001")[0] == 1
    assert open_files(tmp_path)
    del held
    assert not open_files(tmp_path)


async def test_the_overview_of_a_stopped_run_is_that_of_its_files(client):
    now = (await client.get("/api/v1/runs/golden/overview")).json()
    assert (now["is_live"], now["champion"], now["elapsed_s"]) == (False, 2, 660.0)
    games = next(panel for panel in now["panels"] if panel["title"] == "self-play")["figures"][0]
    assert (games["label"], games["value"]) == ("games", "44")
    newest = now["candidates"][0]
    assert (newest["version"], newest["status"], newest["wins"], newest["llr"]) == (2, "promoted", 6, 2.94)
    assert "version 2 promoted: promotion 2" in [event["text"] for event in now["events"]]


async def test_followers_of_one_run_share_its_polls(runs):
    catalogue, live = Catalogue(runs, None), LiveRuns(every_s=0.0)
    first, second = (live.follow(catalogue.get("golden")) for _ in range(2))
    one, other = await anext(first), await anext(second)
    assert one.overview().champion == other.overview().champion == 2
    assert live._polls.count == 1
    await first.aclose()
    await second.aclose()
    assert live._polls.count == 0
    catalogue.close()


async def test_a_stream_of_a_run_that_was_removed_ends_with_the_reason(runs, tmp_path):
    shutil.copytree(runs / "golden", tmp_path / "a")
    catalogue, live = Catalogue(tmp_path, None), LiveRuns(every_s=0.0)
    async with contextlib.aclosing(live.follow(catalogue.get("a"))) as followed:
        assert (await anext(followed)).overview().champion == 2
        shutil.rmtree(tmp_path / "a")
        with pytest.raises(UnknownRun, match="was removed or made again"):
            await anext(followed)


async def test_a_stream_of_a_run_that_was_made_again_is_that_of_the_new_one_while_those_of_the_old_one_end(runs, tmp_path):
    shutil.copytree(runs / "golden", tmp_path / "a")
    catalogue, live = Catalogue(tmp_path, None), LiveRuns(every_s=0.0)
    old = live.follow(catalogue.get("a"))
    assert (await anext(old)).overview().champion == 2
    shutil.rmtree(tmp_path / "a")
    with RunDirectory.create_or_open(tmp_path / "a", "connect_four", {}, preset="tiny", seed=1):
        pass
    async with contextlib.aclosing(live.follow(catalogue.get("a"))) as new:
        now = (await anext(new)).overview()
    assert (now.champion, [event.text for event in now.events]) == (None, [])
    with pytest.raises(UnknownRun, match="was removed or made again"):
        await anext(old)
    catalogue.close()


async def test_a_stream_of_a_run_that_cannot_be_read_ends_with_the_reason(runs, tmp_path):
    shutil.copytree(runs / "golden", tmp_path / "damaged")
    journal = tmp_path / "damaged" / "gatekeeper" / JOURNAL_FILE
    journal.write_bytes(b"{}\n" + journal.read_bytes())
    live = LiveRuns(every_s=0.0)
    app = create_app(Catalogue(tmp_path, None), live=live)
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        streamed = await client.get("/api/v1/runs/damaged/events")
        refused = await client.get("/api/v1/runs/damaged/overview")
    assert refused.status_code == 409
    assert streamed.text == f"retry: 3000\n\nevent: fault\ndata: {refused.text}\n\n"
    assert live._polls.count == 0


async def test_the_overview_of_a_live_run_is_that_of_zerofleet_status(runs, tmp_path):
    shutil.copytree(runs / "golden", tmp_path / "live")
    catalogue, live = Catalogue(tmp_path, None), LiveRuns(every_s=0.0)
    run = catalogue.get("live")
    said = {"service": "trainer", "pid": os.getpid(), "address": "127.0.0.1:1", "metrics_port": 0}
    run.paths.announce("trainer").write_text(json.dumps(said))
    (service,) = live_services(run.paths)
    async with contextlib.aclosing(live.follow(run)) as followed:
        before_s = time.time()
        now = (await anext(followed)).overview()
        after_s = time.time()
        assert (now.is_live, [(one.name, one.state) for one in now.services]) == (True, [("trainer", "ready")])
        assert before_s - service.started_at_s - 1.0 <= now.elapsed_s  # not that of the last session
        assert now.elapsed_s <= after_s - service.started_at_s + 1.0
        run.paths.announce("trainer").unlink()
        assert not (await anext(followed)).is_live
        run.paths.announce("worker-0").write_text(json.dumps(said))
        assert [one.name for one in (await anext(followed)).overview().services] == ["worker-0"]  # of the new session alone
    catalogue.close()


async def test_a_promotion_that_a_live_overview_sees_is_one_event(runs, tmp_path, monkeypatch):
    shutil.copytree(runs / "golden", tmp_path / "live")
    catalogue, live = Catalogue(tmp_path, None), LiveRuns(every_s=0.0)
    run = catalogue.get("live")
    said = {"service": "trainer", "pid": os.getpid(), "address": "", "metrics_port": 0}
    run.paths.announce("trainer").write_text(json.dumps(said))

    async def look(self, left_s):
        self._say(_verdict(Candidate("tic_tac_toe", 2, CandidateStatus.PROMOTED, reason="promotion 2")))
        self._say(
            _verdict(
                Candidate(
                    "tic_tac_toe",
                    2,
                    CandidateStatus.PROMOTED,
                    MatchReport(1, 6, 2, 2, (0, 1, 1, 2, 1), 0.7, 0.5, 0.9, 2.94),
                    "not weaker",
                )
            )
        )
        return Readings()

    monkeypatch.setattr(Observer, "look", look)
    async with contextlib.aclosing(live.follow(run)) as followed:
        texts = [event.text for event in (await anext(followed)).overview().events]
    assert sorted(texts) == [
        "candidate 2 promoted against 1: not weaker",  # of its measurement, after it was promoted
        "version 1 promoted: promotion 1",
        "version 2 promoted: promotion 2",
    ]
    catalogue.close()


async def test_the_overview_of_a_live_run_shows_the_compilation_of_a_service(runs, tmp_path):
    shutil.copytree(runs / "golden", tmp_path / "live")
    catalogue, live = Catalogue(tmp_path, None), LiveRuns(every_s=0.0)
    run = catalogue.get("live")
    announce = run.paths.announce("worker-0")
    announce.write_text(json.dumps({"service": "selfplay_worker", "pid": os.getpid(), "address": "", "metrics_port": 0}))
    async with contextlib.aclosing(live.follow(run)) as followed:
        assert [one.compiling for one in (await anext(followed)).overview().services] == [""]
        write_note(note_path(announce), Compilation(34, 12.0), pid=os.getpid())
        (service,) = (await anext(followed)).overview().services
    assert service.compiling == "34 functions in 12 of about 20 s"
    catalogue.close()


async def test_pages_of_services_elsewhere_say_that_they_show_files(runs, connected):
    for is_elsewhere, marked in ((True, "yes"), (False, "")):
        app = create_app(Catalogue(runs, None), is_elsewhere=is_elsewhere)
        async with app.router.lifespan_context(app), connected(app) as client:
            assert f'data-elsewhere="{marked}"' in (await client.get("/runs/golden/overview")).text


async def test_curves_have_three_axes_and_the_promotions(client):
    found = (await client.get("/api/v1/runs/golden/curves")).json()
    by_name = {series["name"]: series for series in found["series"]}
    assert by_name["loss_total"]["values"][1] == pytest.approx(1.0)
    assert by_name["game_length"]["values"][-1] == pytest.approx(7.0)  # 28 moves for 4 games
    axes = found["axes"]["trainer"]
    assert axes["step"][-1] == 110
    assert axes["hours"][-1] == pytest.approx(55 / 3600)
    assert [promotion["version"] for promotion in found["promotions"]] == [1, 2]
    thin = (await client.get("/api/v1/runs/golden/curves?points=3")).json()
    assert thin["axes"]["trainer"]["step"] == [30, 70, 110]


async def test_the_csv_has_every_row_and_the_values_of_the_chart(client):
    answer = await client.get("/api/v1/runs/golden/curves.csv?group=run")
    rows = list(csv.DictReader(answer.text.splitlines()))
    assert len(rows) == 12
    assert float(rows[-1]["game_length"]) == pytest.approx(7.0)
    assert answer.headers["content-disposition"] == 'attachment; filename="golden-run.csv"'


async def test_the_csv_of_results_by_seat_has_a_row_for_each_window_with_shares_of_the_points(client):
    listed = (await client.get("/api/v1/runs/golden/games")).json()["games"]
    points = [0.5 if game["scores"][0] == game["scores"][1] else float(game["scores"][0] > 0) for game in listed]
    (row,) = csv.DictReader((await client.get("/api/v1/runs/golden/curves.csv?group=seats")).text.splitlines())
    assert (float(row["games"]), float(row["step"])) == (5.0, 50.0)  # the middle of 9 games
    assert float(row["seat_1"]) == pytest.approx(sum(points) / 9)
    assert float(row["seat_1"]) + float(row["seat_2"]) == pytest.approx(1.0)
    assert float(row["draws"]) == pytest.approx(points.count(0.5) / 9)


async def test_the_csv_of_overlaid_runs_has_the_rows_of_each_run_under_its_name(runs, tmp_path, connected):
    for name in ("one", "a, b"):
        shutil.copytree(runs / "golden", tmp_path / name)
    (tmp_path / "one" / "metrics" / "trainer.jsonl").write_text('{"time": 1.0, "step": 7, "losses/policy": 0.5}\n')
    app = create_app(Catalogue(tmp_path, None))
    async with app.router.lifespan_context(app), connected(app) as client:
        asked = {"group": "trainer", "with": ["a, b", "one"]}
        rows = [*csv.DictReader((await client.get("/api/v1/runs/one/curves.csv", params=asked)).text.splitlines())]
        alone = (await client.get("/api/v1/runs/one/curves.csv")).text.splitlines()
        refused = await client.get("/api/v1/runs/one/curves.csv", params={"with": [f"r{n}" for n in range(6)]})
        missing = await client.get("/api/v1/runs/one/curves.csv", params={"with": "nobody"})
    assert [row["run"] for row in rows] == ["one"] + 12 * ["a, b"]
    assert (rows[0]["step"], rows[0]["loss_policy"], rows[1]["loss_policy"]) == ("7.0", "0.5", "")
    assert rows[1]["loss_total"] == "2.0"
    assert alone[0].startswith("step,games,hours,")
    assert (refused.status_code, missing.status_code) == (400, 404)


async def test_the_name_of_a_run_is_no_formula_of_a_spreadsheet(runs, tmp_path, connected):
    hostile = '=HYPERLINK("x")'
    for name in ("one", hostile):
        shutil.copytree(runs / "golden", tmp_path / name)
    app = create_app(Catalogue(tmp_path, None))
    async with app.router.lifespan_context(app), connected(app) as client:
        answer = await client.get("/api/v1/runs/one/curves.csv", params={"with": hostile})
    assert {row["run"] for row in csv.DictReader(answer.text.splitlines())} == {"one", f"'{hostile}"}


async def test_models_have_verdict_match_and_manifest_without_a_service(client):
    listed = (await client.get("/api/v1/runs/golden/models")).json()
    assert [(row["version"], row["status"]) for row in listed["versions"]] == [(2, "champion"), (1, "former champion")]
    assert listed["versions"][0]["match"]["pentanomial"] == [0, 1, 1, 2, 1]
    shown = (await client.get("/api/v1/runs/golden/models/2")).json()
    assert shown["network"]["channels"] == "4"
    assert "model.pt" in [file["name"] for file in shown["files"]]
    assert (await client.get("/api/v1/runs/golden/models/9")).status_code == 404


async def test_games_are_those_of_the_command_line(client, runs, uid_of, capsys):
    for words, address in (
        (("list", "tic_tac_toe", "--limit", "9"), "/games?limit=9"),
        (("show", "tic_tac_toe", uid_of), f"/games/{uid_of}"),
    ):
        with pytest.raises(SystemExit):
            main(["games", *words, "--run-dir", str(runs / "golden"), "--json"])
        assert (await client.get(f"/api/v1/runs/golden{address}")).json() == json.loads(capsys.readouterr().out)


async def test_games_are_filtered_as_on_the_command_line(client, runs, capsys):
    main_words = ["games", "list", "tic_tac_toe", "--run-dir", str(runs / "golden"), "--json"]
    for filters in ({"result": "draw"}, {"model": 4}, {"min_plies": 6, "max_plies": 8}, {"worker": "worker-0", "limit": 3}):
        options = [word for name, value in filters.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        with pytest.raises(SystemExit):
            main([*main_words, *options])
        answer = await client.get("/api/v1/runs/golden/games", params=filters)
        assert answer.json() == json.loads(capsys.readouterr().out)
        assert answer.json()["games"] or filters == {"result": "draw"}


async def test_the_conditions_of_a_query_for_games_are_in_the_document_of_the_api(client):
    document = (await client.get("/api/v1/openapi.json")).json()
    told = {one["name"]: one for one in document["paths"]["/api/v1/runs/{run}/games"]["get"]["parameters"]}
    assert {"limit", "before", "model", "result", "ending", "min_plies", "max_plies", "worker"} <= set(told)
    assert all(one["description"] for name, one in told.items() if name != "run")


async def test_older_games_are_listed_page_by_page(client):
    newest = (await client.get("/api/v1/runs/golden/games?limit=4")).json()["games"]
    older = (await client.get(f"/api/v1/runs/golden/games?limit=4&before={newest[-1]['index']}")).json()["games"]
    assert [row["index"] for row in (*newest, *older)] == list(range(8, 0, -1))


async def test_every_position_of_a_game_is_drawn(client, uid_of):
    plies = (await client.get(f"/api/v1/runs/golden/games/{uid_of}")).json()["plies"]
    for ply in range(plies + 1):
        board = await client.get(f"/api/v1/runs/golden/games/{uid_of}/boards/{ply}")
        assert board.headers["content-type"].startswith("image/svg+xml")
        assert board.text.count("<text") == 6 + ply  # the names of columns and rows, and the marks
    assert (await client.get(f"/api/v1/runs/golden/games/{uid_of}/boards/{plies + 1}")).status_code == 400


async def test_the_heat_map_of_a_position_has_the_visits_of_its_moves_by_cell(client, uid_of):
    moves = (await client.get(f"/api/v1/runs/golden/games/{uid_of}")).json()["moves"]
    for ply, move in enumerate(moves):
        found = (await client.get(f"/api/v1/runs/golden/games/{uid_of}/heat/{ply}")).json()
        wanted = {action["move"]: action["share"] for action in move["actions"] if action["visits"]}
        assert {cell["id"]: cell["share"] for cell in found["cells"]} == pytest.approx(wanted)  # a cell is named as its move
        assert [cell["visits"] for cell in found["cells"]] == sorted((cell["visits"] for cell in found["cells"]), reverse=True)
    over = (await client.get(f"/api/v1/runs/golden/games/{uid_of}/heat/{len(moves)}")).json()
    assert over == {"has_cells": True, "cells": [], "elsewhere": 0.0}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("runs/nothing", 404),
        ("runs/golden/games/0008/heat/10", 400),
        ("runs/golden/games/0008/heat/-1", 400),
        ("runs/..%2F..%2Fetc/overview", 404),
        ("runs/golden/games/zzzz", 400),
        ("runs/golden/games?limit=0", 400),
        ("runs/golden/games?limit=1e9", 400),
        ("runs/golden/games?before=-1", 400),
        ("runs/golden/games?model=x", 400),
        ("runs/golden/games?result=3", 400),
        ("runs/golden/games?ending=lost", 400),
        ("runs/golden/games?min_plies=8&max_plies=7", 400),
        ("runs/golden/games?worker=%3Cb%3E", 400),
        ("runs/golden/games?wroker=a", 400),
        ("runs/golden/games?model=1&model=2", 400),
        ("runs/golden/curves.csv?group=other", 400),
        ("runs/golden/models/01", 400),
        ("runs/golden/games/0008/boards/" + "9" * 5000, 400),
        ("nothing", 404),
    ],
)
async def test_a_bad_request_is_answered_by_a_line_that_states_why(client, path, status):
    answer = await client.get(f"/api/v1/{path}")
    assert answer.status_code == status
    assert answer.json()["error"]


@pytest.mark.slow
def test_pages_that_read_files_never_import_torch(runs: Path) -> None:
    code = (
        "import asyncio, sys, httpx\n"
        "from pathlib import Path\n"
        "from ui.app import create_app\n"
        "from ui.catalogue import Catalogue\n"
        "async def look():\n"
        "    app = create_app(Catalogue(Path(sys.argv[1]), None))\n"
        "    transport = httpx.ASGITransport(app=app)\n"
        "    async with httpx.AsyncClient(transport=transport, base_url='http://127.0.0.1') as client:\n"
        "        for path in sys.argv[2:]:\n"
        "            assert (await client.get('/api/v1/runs' + path)).status_code == 200, path\n"
        "asyncio.run(look())\n"
        "print('torch' in sys.modules)\n"
    )
    paths = ["", *(f"/golden{path}" for path in ("", "/overview", "/curves", "/models", "/models/2", "/games"))]
    child = subprocess.run([sys.executable, "-c", code, str(runs), *paths], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == "False"
