"""Promotion and rollback from the pages: through a real gatekeeper, for operators alone, with its refusals in plain words."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import shutil
from pathlib import Path

import httpx
import pytest
import structlog
from pydantic import SecretStr

from gatekeeper.lease import Lease
from ui.app import create_app
from ui.catalogue import Catalogue
from ui.promoting import PromotionEndpoints, Promotions
from zerofleet.contracts.promotions import Champion
from zerofleet.errors import Overloaded, Unavailable
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.run_paths import RunPaths
from zerofleet.testing.models import sample_files, sample_manifest

MODEL = "tic_tac_toe"
CHAMPION = "/api/v1/runs/golden/champion"
READER, OPERATOR = "correct-horse-battery", "an-operator-of-this-run"
TOKEN = "operator-of-the-cluster"


def _gate():
    spec = importlib.util.spec_from_file_location("gate_of_tests", Path(__file__).parents[1] / "gatekeeper" / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


gate = _gate()


@pytest.fixture
def root(runs, tmp_path):
    """Return a run whose version 2 is champion after version 1, and whose version 3 no server has seen."""
    made = shutil.copytree(runs / "golden", tmp_path / "golden")
    assert DirectoryStore(made / "models").publish(MODEL, sample_files(3.0), sample_manifest()) == 3
    return made


def announce(root, address):
    announced = RunPaths(root).announce("gatekeeper")
    announced.parent.mkdir(exist_ok=True)
    announced.write_text(json.dumps({"service": "gatekeeper", "pid": os.getpid(), "address": address, "metrics_port": 0}))


@contextlib.asynccontextmanager
async def gatekeeper(root, **changes):
    """Run the gatekeeper of a run with a fake inference server, which it yields, and announce it."""
    settings = gate.make_settings(root, by_hand_only=True).model_copy(update=changes)
    inference = gate.FakeInference()
    async with gate.running(settings, None, inference) as running:
        announce(root, running.gatekeeper.address)
        yield inference


@contextlib.asynccontextmanager
async def application(root, headers=None, **options):
    """Yield a client of the application over the folder of a run."""
    app = create_app(Catalogue(root.parent, None), **options)
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        client.headers.update(headers or {})
        session = await client.get("/api/v1/session")
        if session.status_code == 200:
            client.headers["X-CSRF-Token"] = session.json()["csrf_token"]
        yield client


async def promoted(client, version=3, champion=2, **wish):
    return await client.post(CHAMPION, json={"version": version, "champion": champion, **wish})


async def rolled_back(client, champion=2, to=1, **wish):
    return await client.post(f"{CHAMPION}/rollback", json={"champion": champion, "to": to, **wish})


def champion_of(root):
    return DirectoryStore(root / "models").champion(MODEL).version


async def test_an_operator_promotes_a_version_and_rolls_it_back(root):
    async with gatekeeper(root), application(root) as client:
        before = (await client.get(CHAMPION)).json()
        assert (before["champion"], before["rollback_to"], before["has_gatekeeper"], before["refusal"]) == (2, 1, True, "")
        now = (await promoted(client, reason="better endgames")).json()
        assert (now["champion"], now["rollback_to"], now["reason"]) == (3, 2, "better endgames")
        assert now["epoch"] > before["epoch"]
        listed = (await client.get("/api/v1/runs/golden/models")).json()["versions"]
        assert [row["status"] for row in listed] == ["champion", "former champion", "former champion"]
        assert listed[0]["reason"] == "better endgames"  # journalled
        assert (await client.get("/api/v1/runs/golden/models/3")).json()["is_self_tested"]

        back = (await rolled_back(client, champion=3, to=2, reason="plays badly")).json()
        assert (back["champion"], back["rollback_to"], back["reason"]) == (2, 1, "rollback: plays badly")
        assert champion_of(root) == 2


@pytest.mark.parametrize(
    ("options", "bearer", "status"),
    [
        ({"token": READER}, READER, 403),
        ({"token": READER, "operator_token": OPERATOR}, READER, 403),
        ({"token": READER, "operator_token": OPERATOR}, OPERATOR, 200),
        ({"operator_token": OPERATOR}, "", 403),
        ({"token": READER, "operator_token": OPERATOR}, "wrong", 401),
    ],
)
async def test_with_tokens_only_an_operator_changes_the_champion(root, options, bearer, status):
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    async with gatekeeper(root), application(root, headers, **options) as client:
        assert (await promoted(client)).status_code == status
        assert champion_of(root) == (3 if status == 200 else 2)
        assert (await rolled_back(client, 3, 2)).status_code == status
        assert champion_of(root) == 2


@pytest.mark.parametrize("headers", [{"X-CSRF-Token": ""}, {"X-CSRF-Token": "guessed"}])
async def test_a_change_without_the_token_of_the_session_is_refused(root, headers):
    async with gatekeeper(root), application(root) as client:
        client.headers.update(headers)
        for refused in (await promoted(client), await rolled_back(client)):
            assert (refused.status_code, "load the page again" in refused.json()["error"]) == (403, True)
    assert champion_of(root) == 2


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
async def test_a_change_from_another_origin_is_refused(root, headers):
    async with gatekeeper(root), application(root) as client:
        client.headers.update(headers)  # beside the right token of the session
        for refused in (await promoted(client), await rolled_back(client)):
            assert (refused.status_code, "from the pages of this application alone" in refused.json()["error"]) == (403, True)
    assert champion_of(root) == 2


async def test_a_gatekeeper_that_does_not_answer_is_reported(root, tmp_path):
    announce(root, f"unix:{tmp_path}/nobody.sock")
    async with application(root) as client:
        failed = await promoted(client)
        assert (failed.status_code, "does not answer" in failed.json()["error"]) == (503, True)
        assert (await client.get(CHAMPION)).json()["champion"] == 2


async def test_a_gatekeeper_that_refuses_the_token_of_the_pages_names_the_setting(root, monkeypatch):
    monkeypatch.delenv("ZEROFLEET_TOKEN", raising=False)
    async with gatekeeper(root, tokens=SecretStr(f"operator: {TOKEN}")), application(root) as client:
        refused = await promoted(client)
        assert (refused.status_code, "ZEROFLEET_TOKEN_FILE" in refused.json()["error"]) == (409, True)
        assert refused.json()["error"].startswith("the gatekeeper refused: ")
        monkeypatch.setenv("ZEROFLEET_TOKEN", TOKEN)
        assert (await promoted(client)).status_code == 200


async def test_an_unknown_version_is_refused_with_the_stored_ones(root):
    async with gatekeeper(root), application(root) as client:
        refused = await promoted(client, version=9)
        assert (refused.status_code, "no version 9; the latest stored are: " in refused.json()["error"]) == (404, True)


async def test_a_corrupt_version_is_refused(root):
    (root / "models" / MODEL / "3" / "model.pt").write_bytes(b"")
    async with gatekeeper(root), application(root) as client:
        refused = await promoted(client, without_self_test=True)
        assert (refused.status_code, "was truncated or changed" in refused.json()["error"]) == (409, True)
    assert champion_of(root) == 2


async def test_a_version_that_no_server_can_load_needs_the_accepted_risk(root):
    async with gatekeeper(root) as inference, application(root) as client:
        inference.away = True
        assert not (await client.get("/api/v1/runs/golden/models/3")).json()["is_self_tested"]
        refused = await promoted(client)
        assert (refused.status_code, "version 3 was not self-tested" in refused.json()["error"]) == (503, True)
        assert champion_of(root) == 2
        accepted = (await promoted(client, without_self_test=True)).json()
        assert (accepted["champion"], accepted["reason"]) == (3, "by hand (without self-test)")
        assert not (await client.get("/api/v1/runs/golden/models/3")).json()["is_self_tested"]
        assert (await rolled_back(client, 3, 2)).json()["champion"] == 2  # a former champion was loaded before


async def test_a_change_whose_confirmation_is_out_of_date_is_refused(root):
    async with gatekeeper(root), application(root) as client:
        for refused, text in (
            (await promoted(client, champion=1), "version 2 is champion by now, version 1 was confirmed: confirm again"),
            (await promoted(client, champion=None), "version 2 is champion by now, no version was confirmed: confirm again"),
            (
                await rolled_back(client, champion=3, to=2),
                "version 2 is champion by now, version 3 was confirmed: confirm again",
            ),
            (await rolled_back(client, to=3), "a rollback restores version 1, 3 was confirmed: confirm again"),
        ):
            assert (refused.status_code, refused.json()["error"]) == (400, text)
        await rolled_back(client)
        last = await rolled_back(client, champion=1, to=1)
        assert (last.status_code, "there is no earlier champion" in last.json()["error"]) == (404, True)


@pytest.mark.parametrize("wish", [{"version": 0}, {"version": 2**63}, {"reason": "x" * 501}, {"also": 1}, {"version": "new"}])
async def test_a_malformed_order_is_refused(root, wish):
    async with application(root) as client:
        assert (await promoted(client, **{"champion": 2, **wish})).status_code == 400


async def test_a_run_whose_services_are_elsewhere_is_changed_there(root):
    async with gatekeeper(root), application(root, is_elsewhere=True) as client:
        for refused in (await promoted(client), await rolled_back(client)):
            assert (refused.status_code, "use zerofleet models promote" in refused.json()["error"]) == (400, True)
        assert (await client.get(CHAMPION)).json()["refusal"] == refused.json()["error"]


@pytest.mark.slow
async def test_the_holder_of_the_lease_is_named_in_one_line(root):
    lease = Lease.acquire(root / "models" / MODEL)
    try:
        async with application(root) as client:
            failed = await promoted(client, without_self_test=True)  # which starts a gatekeeper alone
    finally:
        lease.release()
    assert failed.status_code == 503
    assert failed.json()["error"].startswith("gatekeeper could not be started: the lease of ")
    assert f"is held by {lease.holder} already" in failed.json()["error"]
    assert "\n" not in failed.json()["error"]


@pytest.mark.slow
async def test_a_stopped_run_is_changed_by_a_gatekeeper_that_is_started_for_it(root):
    async with application(root) as client:
        assert not (await client.get(CHAMPION)).json()["has_gatekeeper"]
        now = (await promoted(client, without_self_test=True)).json()
        assert (now["champion"], now["reason"]) == (3, "by hand (without self-test)")
    assert champion_of(root) == 3


CROWNED = Champion(MODEL, 3, 3, "0" * 64, 0, "by hand")


async def test_one_change_is_in_progress_at_a_time_and_ends_with_the_application():
    promotions, begun, ended = Promotions(), asyncio.Event(), asyncio.Event()

    async def change():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return CROWNED

    async def another():
        return CROWNED

    first = asyncio.create_task(promotions.carry_out("golden", change()))
    await begun.wait()
    with pytest.raises(Overloaded, match="the champion of golden is being changed"):
        await promotions.carry_out("other", another())
    await promotions.aclose()
    assert ended.is_set()
    with pytest.raises(Unavailable, match="ended during the change"):
        await first
    assert await promotions.carry_out("other", another()) == CROWNED


async def test_a_change_goes_on_when_the_browser_leaves():
    promotions, begun, may_end, ended = Promotions(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def change():
        begun.set()
        await may_end.wait()
        ended.set()
        return CROWNED

    browser = asyncio.create_task(promotions.carry_out("golden", change()))
    await begun.wait()
    browser.cancel()
    with pytest.raises(asyncio.CancelledError):
        await browser
    may_end.set()
    await ended.wait()


async def test_no_order_comes_between_the_comparison_of_another_and_its_change(root, monkeypatch):
    read, may_go_on = asyncio.Event(), asyncio.Event()
    real = PromotionEndpoints._state

    async def late(self, run):
        found = await real(self, run)
        if not read.is_set():
            read.set()
            await may_go_on.wait()
        return found

    async with gatekeeper(root), application(root) as client:
        monkeypatch.setattr(PromotionEndpoints, "_state", late)
        first = asyncio.create_task(promoted(client))
        await read.wait()  # it has compared, and changes nothing yet
        refused = await rolled_back(client)
        assert (refused.status_code, "is being changed" in refused.json()["error"]) == (503, True)
        may_go_on.set()
        assert (await first).json()["champion"] == 3
        assert "version 3 is champion by now" in (await rolled_back(client)).json()["error"]


@pytest.mark.parametrize("is_right", [True, False])
async def test_the_end_of_a_change_is_logged_although_the_browser_has_left(is_right):
    promotions, may_end = Promotions(), asyncio.Event()

    async def change():
        await may_end.wait()
        if not is_right:
            raise Unavailable("the lease is held")
        return CROWNED

    with structlog.testing.capture_logs() as logs:
        browser = asyncio.create_task(promotions.carry_out("golden", change()))
        await asyncio.sleep(0)
        browser.cancel()
        with pytest.raises(asyncio.CancelledError):
            await browser
        may_end.set()
        await asyncio.wait({promotions._task})
        await asyncio.sleep(0)  # its callbacks
    expected = (
        {"event": "champion.changed_by_hand", "version": 3}
        if is_right
        else {"event": "champion.not_changed", "error": "the lease is held"}
    )
    assert len(logs) == 1
    assert logs[0].items() >= {"run": "golden", **expected}.items()
