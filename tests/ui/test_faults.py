"""What the application answers where the rules of a game are at fault, and where it is itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import structlog
from starlette.applications import Starlette
from starlette.requests import Request

from ui.app import create_app
from ui.catalogue import Catalogue
from ui.endpoints import API, Endpoint, Fault, routes
from ui.event_stream import Events, streamed
from ui.faults import shown_fault


async def answer_to(error: Exception) -> httpx.Response:
    """The answer of an endpoint that raises an exception."""

    async def fail(request: Request) -> str:
        raise error

    app = Starlette(routes=routes([Endpoint("/fail", fail, "Fails", "text/plain")]))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://ui") as client:
        return await client.get(f"{API}/fail")


async def test_an_exception_in_the_rules_of_a_game_is_answered_with_rule_and_line(fault_in_rules: Exception) -> None:
    answer = await answer_to(fault_in_rules)
    assert answer.status_code == 500
    assert answer.json()["error"].startswith("play of TicTacToe raised TypeError: ")
    assert "tic_tac_toe.py, line " in answer.json()["error"]


async def test_a_page_of_a_run_whose_rules_are_at_fault_names_rule_and_line(
    runs: Path, connected: Callable[[object], httpx.AsyncClient], fault_in_rules: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(catalogue: Catalogue, name: str) -> None:
        raise fault_in_rules

    monkeypatch.setattr(Catalogue, "get", fail)
    async with connected(create_app(Catalogue(runs, None))) as client:
        answer = await client.get("/runs/golden/games")
    assert (answer.status_code, "play of TicTacToe raised TypeError" in answer.text) == (500, True)


async def test_a_stream_that_ends_by_a_defect_has_the_place_of_its_traceback_as_the_last_event() -> None:
    async def fail() -> Events:
        yield "job", Fault(error="none so far")
        raise KeyError("slot")

    with structlog.testing.capture_logs() as logged:
        lines = [line async for line in streamed(fail()).body_iterator]
    assert lines[-1] == 'event: fault\ndata: {"error":"a defect; the log of zerofleet ui has it"}\n\n'
    assert [line["event"] for line in logged] == ["events.failed"]


async def test_a_defect_is_left_to_the_server() -> None:
    with pytest.raises(KeyError):
        await answer_to(KeyError("slot"))


def test_a_task_that_ends_by_a_defect_names_the_log_and_one_that_ends_by_the_rules_names_them(
    fault_in_rules: Exception,
) -> None:
    assert shown_fault(KeyError("slot")) == "a defect; the log of zerofleet ui has it"
    assert shown_fault(fault_in_rules).startswith("play of TicTacToe raised TypeError: ")
