"""Protection of the pages: headers, names of the host, token, foreign changes, and names that are markup."""

from __future__ import annotations

import html
import re
import shutil

import httpx
import jsonschema
import pytest
from pydantic import ValidationError

from ui.app import create_app
from ui.catalogue import Catalogue
from ui.service import served_names
from ui.settings import UiSettings

TOKEN = "correct-horse-battery"
HOSTILE = "<img src=x onerror=alert(1)>&\"'"
RUN_PAGES = tuple(
    f"/runs/golden/{name}" for name in ("overview", "curves", "ladder", "models", "matches", "games", "games/0008abab")
)
PAGES = ("/", "/play", "/tree", "/solver", "/api", "/nothing", *RUN_PAGES)


def browser(app: object, **headers: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1:8765", headers=headers)


@pytest.mark.parametrize("path", [*PAGES, "/static/app.css", "/api/v1/runs"])
async def test_every_answer_has_the_strict_policy(client, path):
    headers = (await client.get(path)).headers
    assert headers["content-security-policy"].startswith("default-src 'self';")
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


async def test_a_browser_asks_for_a_module_again_so_that_modules_of_two_releases_never_meet(client):
    answer = await client.get("/static/common.js")
    known = await client.get("/static/common.js", headers={"If-None-Match": answer.headers["etag"]})
    assert [(one.status_code, one.headers["cache-control"]) for one in (answer, known)] == [
        (200, "no-cache"),
        (304, "no-cache"),
    ]


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_has_neither_inline_scripts_nor_foreign_addresses(client, path):
    text = (await client.get(path)).text
    assert "<script>" not in text
    assert " style=" not in text
    assert " onclick=" not in text
    assert "http://" not in text
    assert "https://" not in text


async def test_a_run_whose_name_is_markup_is_shown_as_text(runs, tmp_path):
    shutil.copytree(runs / "golden", tmp_path / HOSTILE)
    async with browser(create_app(Catalogue(tmp_path, None))) as client:
        (row,) = (await client.get("/api/v1/runs")).json()["runs"]
        assert row["name"] == HOSTILE
        page = await client.get(f"/runs/{httpx.URL('http://x').copy_with(path='/' + HOSTILE).raw_path.decode()[1:]}/overview")
        assert page.status_code == 200
        assert "<img src=x" not in page.text
        assert "&lt;img src=x onerror=alert(1)&gt;" in page.text


async def test_an_unknown_run_is_named_as_text(client):
    page = await client.get("/runs/%3Cscript%3E/overview")
    assert page.status_code == 404
    assert "<script>" not in page.text
    assert "&lt;script&gt;" in page.text


@pytest.mark.parametrize(("path", "allowed"), [("/api/v1/runs", "GET"), ("/api/v1/openapi.json", "GET")])
async def test_a_wrong_method_on_the_api_is_refused_as_the_declared_fault_with_the_right_ones(client, path, allowed):
    answer = await client.request("DELETE", path, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()) == (405, {"error": f"{path} has no method DELETE"})
    assert allowed in answer.headers["allow"]


async def test_a_wrong_method_on_a_page_is_refused_by_a_page(client):
    answer = await client.request("DELETE", "/play", headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.headers["content-type"]) == (405, "text/html; charset=utf-8")


async def test_a_foreign_host_name_is_refused(client):
    assert (await client.get("/api/v1/runs", headers={"Host": "evil.example"})).status_code == 400
    assert (await client.get("/api/v1/runs", headers={"Host": "[evil"})).status_code == 400
    assert (await client.get("/api/v1/runs", headers={"Host": "localhost:8765"})).status_code == 200


async def test_another_site_reads_no_values_and_starts_no_work(client):
    for path, status in (("/api/v1/runs", 403), ("/api/v1/runs/golden/games/0008/boards/0", 403), ("/", 200)):
        assert (await client.get(path, headers={"Sec-Fetch-Site": "cross-site"})).status_code == status
    assert (await client.get("/api/v1/runs", headers={"Sec-Fetch-Site": "same-origin"})).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example", "Content-Type": "application/json"}, 403),
        ({"Origin": "http://[evil", "Content-Type": "application/json"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Content-Type": "application/json"}, 403),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "text/plain"}, 415),
    ],
)
async def test_a_change_from_a_foreign_page_is_refused(client, headers, status):
    answer = await client.post("/api/v1/tables", content='{"game": "tic_tac_toe"}', headers=headers)
    assert answer.status_code == status


async def test_with_a_token_pages_and_api_need_it(runs):
    app = create_app(Catalogue(runs, None), token=TOKEN)
    async with browser(app) as client:
        assert (await client.get("/api/v1/runs")).status_code == 401
        assert (await client.get("/api/v1/runs", headers={"Authorization": "Bearer wrong"})).status_code == 401
        assert (await client.get("/api/v1/runs", headers={"Authorization": f"Bearer {TOKEN}"})).status_code == 200
        page = await client.get("/", headers={"Accept": "text/html"})
        assert (page.status_code, page.headers["location"]) == (303, "/login")
        assert page.headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize("address", ["/runs/a%20b/matches?version=2&x=%2F", "/play", "/tree?game=tic_tac_toe&moves=b2,a1"])
async def test_the_login_leads_to_the_page_that_was_asked_for(runs, address):
    async with browser(create_app(Catalogue(runs, None), token=TOKEN)) as client:
        login = (await client.get(address, headers={"Accept": "text/html"})).headers["location"]
        form = (await client.get(login)).text
        (kept,) = re.findall(r'name="next" value="([^"]*)"', form)
        assert html.unescape(kept) == address
        answer = await client.post("/login", data={"token": TOKEN, "next": html.unescape(kept)})
        assert (answer.status_code, answer.headers["location"]) == (303, address)


@pytest.mark.parametrize(
    "address", ["//elsewhere.example", "/\\elsewhere.example", "https://elsewhere.example", "play", "", "/a\tb"]
)
async def test_the_login_leads_to_no_address_of_another_site(runs, address):
    async with browser(create_app(Catalogue(runs, None), token=TOKEN)) as client:
        assert 'name="next" value="/"' in (await client.get("/login", params={"next": address})).text
        wrong = await client.post("/login", data={"token": "wrong", "next": address})
        assert 'name="next" value="/"' in wrong.text
        answer = await client.post("/login", data={"token": TOKEN, "next": address})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")


@pytest.mark.parametrize("tokens", [{"token": TOKEN}, {"token": TOKEN, "operator_token": TOKEN.upper()}])
async def test_a_role_token_of_the_cluster_opens_no_page_even_that_of_the_pages_own_environment(runs, monkeypatch, tokens):
    role = "operator-of-the-cluster-000"
    monkeypatch.setenv("ZEROFLEET_TOKEN", role)
    async with browser(create_app(Catalogue(runs, None), **tokens)) as client:
        assert (await client.get("/api/v1/runs", headers={"Authorization": f"Bearer {role}"})).status_code == 401
        assert (await client.post("/login", data={"token": role})).status_code == 401


async def test_a_browser_enters_the_token_once(runs):
    async with browser(create_app(Catalogue(runs, None), token=TOKEN)) as client:
        assert (await client.post("/login", data={"token": "wrong"})).status_code == 401
        answer = await client.post("/login", data={"token": TOKEN})
        assert answer.status_code == 303
        assert TOKEN not in answer.headers["set-cookie"]
        assert "HttpOnly" in answer.headers["set-cookie"]
        assert (await client.get("/api/v1/runs")).status_code == 200


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_over_https_the_cookie_is_sent_over_https_alone(runs, scheme):
    transport = httpx.ASGITransport(app=create_app(Catalogue(runs, None), token=TOKEN))
    async with httpx.AsyncClient(transport=transport, base_url=f"{scheme}://localhost") as client:
        assert (await client.head("/login")).status_code == 200
        answer = await client.post("/login", data={"token": TOKEN})
    assert ("Secure" in answer.headers["set-cookie"]) == (scheme == "https")


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        ({}, "localhost"),
        ({"page_host": "127.0.0.2"}, "127.0.0.2"),
        ({"page_host_names": "Box.lan"}, "box.lan"),
        ({"page_host_names": "box.lan:8765, [fd00::1]"}, "box.lan"),
        ({"page_host_names": "box.lan:8765, [fd00::1]"}, "fd00::1"),
        ({"page_host": "10.0.0.7", "page_token": TOKEN, "page_host_names": "box.lan"}, "10.0.0.7"),
        ({"page_host": "fd00::1", "page_token": TOKEN, "page_host_names": "box.lan"}, "fd00::1"),
    ],
)
async def test_requests_are_served_at_the_address_that_is_printed_and_at_every_further_name(runs, settings, host):
    names = served_names(UiSettings(**settings))
    shown = f"[{host}]" if ":" in host else host
    transport = httpx.ASGITransport(app=create_app(Catalogue(runs, None), host_names=names))
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{shown}:8765") as client:
        assert (await client.get("/api/v1/runs")).status_code == 200
        assert (await client.get("/api/v1/runs", headers={"Host": "foreign.example"})).status_code == 400


@pytest.mark.parametrize("name", ["page_token", "page_operator_token", "metrics_token"])
@pytest.mark.parametrize("secret", ["schlüssel-schlüssel", "two lines of\ntext in all", "short"])
def test_a_secret_that_no_header_can_hold_or_that_is_short_is_refused(name, secret):
    with pytest.raises(ValidationError, match=name):
        UiSettings(**{name: secret})


def test_elsewhere_than_on_loopback_a_token_is_required():
    with pytest.raises(
        ValidationError, match=r"set page_token \(ZEROFLEET_PAGE_TOKEN\), or use 127.0.0.1 \(`zerofleet ui --host"
    ):
        UiSettings(page_host="0.0.0.0")
    with pytest.raises(ValidationError, match="at least 16"):
        UiSettings(page_host="0.0.0.0", page_token="short")
    assert not UiSettings(page_host="0.0.0.0", page_token=TOKEN).is_loopback
    assert UiSettings(page_host="::1").is_loopback


async def test_the_openapi_document_describes_every_route_of_the_api(client):
    document = (await client.get("/api/v1/openapi.json")).json()
    app = client._transport.app
    served = {route.path for route in app.routes if route.path.startswith("/api/v1/") and not route.path.endswith(".json")}
    assert set(document["paths"]) == served
    assert document["components"]["schemas"]["NewTable"]["required"] == ["game"]  # the others have defaults
    names = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names))  # clients are generated from them


async def test_answers_are_those_of_the_openapi_document(client, uid_of):
    document = (await client.get("/api/v1/openapi.json")).json()
    begun = (await client.post("/api/v1/tables", json={"game": "tic_tac_toe"})).json()
    study = (await client.post("/api/v1/studies", json={"game": "tic_tac_toe", "simulations": 20})).json()
    await client.get(f"/api/v1/studies/{study['id']}/events")  # to the end of the search
    values = {"run": "golden", "uid": uid_of, "version": "2", "table": begun["id"], "study": study["id"], "ply": "0"}
    answers = {}
    for path, methods in document["paths"].items():
        asked = methods.get("get", {"parameters": [], "responses": {"200": {"content": {}}}})
        content = asked["responses"]["200"]["content"]
        is_complete = all(one["in"] == "path" or not one["required"] for one in asked["parameters"])
        if "application/json" in content and is_complete:
            answers[path] = (await client.get(path.format(**values))).json(), content["application/json"]["schema"]
    assert len(answers) >= 17
    assert not [path for path, (answer, _) in answers.items() if "error" in answer]
    for answer, schema in answers.values():
        jsonschema.validate(answer, {**schema, "components": document["components"]})
