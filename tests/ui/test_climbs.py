"""Missing games of a ladder: their number, their play in a process, its cancellation, and who may start it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys

import httpx
import pytest
from pydantic import ValidationError

from ui import climbing, climbs
from ui.app import create_app
from ui.catalogue import Catalogue
from ui.ladder_jobs import LadderJobs
from ui.settings import UiSettings
from zerofleet.service.compilation_note import Compilation

GAMES = "/api/v1/runs/golden/ladder/games"
READER, OPERATOR = "correct-horse-battery", "an-operator-of-this-run"
PLAYS = """
import sys
print("compiling", flush=True)
print('{"missing": 5, "played": 0, "at": "", "fault": ""}', flush=True)
print('{"missing": 5, "played": 2, "at": "model:2", "fault": ""}', flush=True)
"""
COMPILES = (
    'print(\'{"compiling": {"is_compiling": true, "functions": 34, "seconds": 12.0, "expected_s": 20.0}}\', flush=True)\n'
)
COMPILED = COMPILES.replace("true, ", "false, ")
PLAYS_ON = PLAYS + "import signal; signal.pause()"
REFUSES = 'import sys; print(\'{"fault": "the book is in use"}\'); sys.exit(2)'
ENDS_SLOWLY = """
import signal, sys
def end(number, frame):
    open("asked").read()
    open("ended", "w").close()
    sys.exit(130)
signal.signal(signal.SIGTERM, end)
print('{"missing": 5, "played": 3, "at": "", "fault": ""}', flush=True)
signal.pause()
"""
FAILS = "raise SystemExit('no reason that is meant for a page')"


@contextlib.asynccontextmanager
async def application(runs, code=PLAYS, headers=None, **options):
    """Yield a client of the application with its jobs, whose program is this code."""
    jobs = LadderJobs((sys.executable, "-c", code))
    app = create_app(Catalogue(runs, None), jobs=jobs, **options)
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        client.headers.update(headers or {})
        session = await client.get("/api/v1/session")
        if session.status_code == 200:
            client.headers["X-CSRF-Token"] = session.json()["csrf_token"]
        yield client, jobs


async def begun(client, confirmed=100_000, **wish):
    return await client.post(GAMES, json={"confirmed": confirmed, **wish})


async def events(client):
    streamed = await client.get(f"{GAMES}/events")
    return [json.loads(line.removeprefix("data: ")) for line in streamed.text.splitlines() if line.startswith("data: ")]


@pytest.mark.slow
def test_the_process_plays_every_missing_game_into_the_book(runs, tmp_path, monkeypatch, capsys):
    @contextlib.asynccontextmanager
    async def served(paths, game, *, versions):
        yield None  # a network that knows nothing

    monkeypatch.setattr("zerofleet.library.ladder_play.served", served)
    monkeypatch.setattr(climbing, "SPEAK_EVERY_S", 0.0)
    root = shutil.copytree(runs / "golden", tmp_path / "golden")
    words = ("--run-dir", str(root), "--games", "2", "--every", "1", "--most", "10000")
    assert climbing.main(words) == 0
    steps = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    missing = steps[0]["missing"]
    assert missing > 0
    assert [step["played"] for step in steps] == [*range(missing + 1), missing]
    assert {step["at"] for step in steps[1:]} == {"rungs", "model:1", "model:2"}
    assert climbing.main(words) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == climbing.Step().model_dump()


def test_a_process_that_cannot_play_reports_the_fault(tmp_path, capsys):
    words = ("--run-dir", str(tmp_path), "--games", "2", "--every", "1", "--most", "10000")
    assert climbing.main(words) == climbing.REFUSED
    assert "run.json" in json.loads(capsys.readouterr().out)["fault"]


def test_a_process_that_finds_more_games_than_were_confirmed_plays_none(runs, tmp_path, capsys):
    root = shutil.copytree(runs / "golden", tmp_path / "golden")
    words = ("--run-dir", str(root), "--games", "2", "--every", "1", "--most", "3")
    assert climbing.main(words) == climbing.REFUSED
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["fault"].endswith("games are missing by now, 3 were confirmed: confirm again")


def test_the_process_reports_a_compilation_until_it_has_ended():
    looks = (None, Compilation(3, 0.5), Compilation(34, 12.0), Compilation(40, 13.0), None, None)
    steps = [step.compiling for step in climbing.compilation_steps(looks)]
    shown = [(step.is_compiling, step.functions, step.seconds) for step in steps]
    assert shown == [(True, 34, 12.0), (True, 40, 13.0), (False, 0, 0.0)]


async def test_a_job_shows_the_compilation_of_its_process(runs):
    async with application(runs, COMPILES + PLAYS_ON) as (client, jobs):
        assert (await begun(client, games=2)).json()["compiling"] is None
        async for job in jobs.follow("golden"):
            if job.played:
                break
        assert (job.compiling.is_compiling, job.compiling.functions) == (True, 34)
    async with application(runs, COMPILES + COMPILED) as (client, _):
        await begun(client, games=2)
        assert (await events(client))[-1]["compiling"]["is_compiling"] is False


async def test_the_missing_games_are_counted_for_the_numbers_that_are_asked_for(client):
    few, many = [(await client.get(GAMES, params={"games": games})).json() for games in (2, 20)]
    assert (few["table"]["games_per_pair"], [one["version"] for one in few["table"]["champions"]]) == (2, [1, 2])
    assert (few["refusal"], few["job"]) == ("", None)
    assert many["missing"] == 10 * few["missing"]
    last = (await client.get(GAMES, params={"games": 2, "every": 9})).json()
    assert last["missing"] == few["missing"]  # the first and the last champion are the two
    assert (await client.get(GAMES, params={"games": 0})).status_code == 400


async def test_a_ladder_of_too_many_games_is_refused_without_a_count(client, monkeypatch):
    monkeypatch.setattr(climbs, "MOST_PLANNED", 100)
    now = (await client.get(GAMES, params={"games": 20})).json()
    assert (now["missing"], "at most 100 are played here" in now["refusal"]) == (0, True)
    assert len(now["table"]["champions"]) == 2


async def test_of_very_many_champions_the_table_has_the_newest(client, monkeypatch):
    monkeypatch.setattr(climbs, "MOST_CHAMPIONS", 1)
    now = (await client.get(GAMES, params={"games": 20})).json()
    assert ([one["version"] for one in now["table"]["champions"]], now["older"]) == ([2], 1)
    assert now["missing"] > 0


async def test_a_job_is_followed_to_its_end(runs):
    async with application(runs) as (client, _):
        job = (await begun(client, games=2)).json()
        assert (job["run"], job["games"], job["is_done"]) == ("golden", 2, False)
        last = (await events(client))[-1]
        assert (last["missing"], last["played"], last["at"], last["is_done"], last["fault"]) == (5, 2, "model:2", True, "")
        assert (await client.get(GAMES)).json()["job"] == last


@pytest.mark.parametrize(("code", "fault"), [(REFUSES, "the book is in use"), (FAILS, "exit code 1; the log")])
async def test_a_job_that_fails_ends_with_its_fault(runs, code, fault):
    async with application(runs, code) as (client, _):
        await begun(client)
        last = (await events(client))[-1]
        assert last["is_done"]
        assert fault in last["fault"]
        assert "meant for a page" not in last["fault"]


async def test_one_job_runs_at_a_time_and_a_cancelled_one_ends_its_process(runs):
    async with application(runs, PLAYS_ON) as (client, jobs):
        assert (await begun(client)).status_code == 200
        async with contextlib.aclosing(jobs.follow("golden")) as steps:
            async for step in steps:
                if step.played:
                    break
        second = await begun(client)
        assert (second.status_code, "are being played" in second.json()["error"]) == (503, True)
        ended = (await client.post(f"{GAMES}/cancel", json={})).json()
        assert (ended["is_done"], ended["is_cancelled"], ended["played"]) == (True, True, 2)
        assert not jobs.is_busy
        again = await client.post(f"{GAMES}/cancel", json={})
        assert (again.status_code, "no missing games of golden" in again.json()["error"]) == (400, True)


async def test_a_process_that_is_ending_is_awaited_by_everyone_who_ends_it(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("asked")
    async with application(runs, ENDS_SLOWLY) as (client, jobs):
        await begun(client)
        async with contextlib.aclosing(jobs.follow("golden")) as steps:
            async for step in steps:
                if step.played == 3:
                    break
        gone, waits = asyncio.create_task(jobs.cancel("golden")), asyncio.create_task(jobs.cancel("golden"))
        asked = await asyncio.to_thread(open, "asked", "w")  # opens when the process has its signal
        gone.cancel()  # as a server that stops cancels its requests
        closing = asyncio.create_task(jobs.aclose())
        for _ in range(9):
            await asyncio.sleep(0)
        assert not (tmp_path / "ended").exists()
        assert jobs.is_busy
        asked.close()
        await asyncio.gather(waits, closing)
        assert (tmp_path / "ended").exists()
        assert waits.result().is_cancelled


async def test_events_without_a_job_end_with_a_fault_after_which_a_page_does_not_ask_again(runs):
    async with application(runs) as (client, _):
        streamed = await client.get(f"{GAMES}/events")
        assert "event: fault" in streamed.text
        assert "no missing games of golden are being played" in streamed.text


async def test_more_games_than_were_confirmed_are_not_played(runs):
    async with application(runs) as (client, jobs):
        refused = await begun(client, confirmed=1)
        assert (refused.status_code, "1 were confirmed: confirm again" in refused.json()["error"]) == (400, True)
        assert not jobs.is_busy


async def test_a_run_with_a_live_gatekeeper_or_services_elsewhere_is_refused(runs, tmp_path):
    root = shutil.copytree(runs / "golden", tmp_path / "golden")
    async with application(tmp_path, is_elsewhere=True) as (client, _):
        assert "elsewhere" in (await begun(client)).json()["error"]
    announced = root / "services" / "gatekeeper.json"
    announced.parent.mkdir(exist_ok=True)
    announced.write_text(json.dumps({"service": "gatekeeper", "pid": os.getpid(), "address": "x:1", "metrics_port": 0}))
    async with application(tmp_path) as (client, jobs):
        refused = await begun(client)
        assert (refused.status_code, "its gatekeeper plays the ladder itself" in refused.json()["error"]) == (400, True)
        assert (await client.get(GAMES)).json()["refusal"] == refused.json()["error"]
        assert not jobs.is_busy


async def test_a_long_line_of_a_library_does_not_end_the_games(runs):
    noise = "import sys\nfor out in (sys.stdout, sys.stderr): print('x' * 200_000, file=out, flush=True)\n"
    code = f'{noise}print(\'{{"missing": 5, "played": 5, "at": "", "fault": ""}}\', flush=True)'
    async with application(runs, code) as (client, _):
        assert (await begun(client)).status_code == 200
        last = (await events(client))[-1]
    assert (last["played"], last["fault"], last["is_done"]) == (5, "", True)


async def test_a_start_without_the_token_of_the_session_is_refused(runs):
    async with application(runs) as (client, jobs):
        for given in ("", "guessed"):
            refused = await client.post(GAMES, json={"confirmed": 9999}, headers={"X-CSRF-Token": given})
            assert (refused.status_code, "load the page again" in refused.json()["error"]) == (403, True)
        assert not jobs.is_busy


@pytest.mark.parametrize(
    ("options", "bearer", "status"),
    [
        ({"token": READER}, READER, 403),
        ({"token": READER, "operator_token": OPERATOR}, READER, 403),
        ({"token": READER, "operator_token": OPERATOR}, OPERATOR, 200),
        ({"operator_token": OPERATOR}, "", 403),
        ({"operator_token": OPERATOR}, OPERATOR, 200),
        ({"token": READER, "operator_token": OPERATOR}, "wrong", 401),
    ],
)
async def test_with_tokens_only_an_operator_plays_missing_games(runs, options, bearer, status):
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    async with application(runs, headers=headers, **options) as (client, jobs):
        assert (await begun(client)).status_code == status
        assert jobs.is_busy == (status == 200)
        if status != 200:
            assert (await client.post(f"{GAMES}/cancel", json={})).status_code == status
        if status != 401:
            assert (await client.get("/api/v1/session")).json()["is_operator"] == (status == 200)


async def test_an_operator_in_a_browser_needs_cookie_and_session_token(runs):
    async with application(runs, token=READER, operator_token=OPERATOR) as (client, _):
        await client.post("/login", data={"token": OPERATOR})
        session = (await client.get("/api/v1/session")).json()
        assert session["is_operator"]
        assert (await begun(client)).status_code == 403  # the cookie alone, as a foreign page would send it
        client.headers["X-CSRF-Token"] = session["csrf_token"]
        assert (await begun(client)).status_code == 200


def test_tokens_of_readers_and_operators_differ():
    with pytest.raises(ValidationError, match="every reader would be an operator"):
        UiSettings(page_token=READER, page_operator_token=READER)
    with pytest.raises(ValidationError, match=r"page_operator_token\n.*got 5 characters; give at least 16"):
        UiSettings(page_operator_token="short")
