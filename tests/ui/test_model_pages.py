"""Lists of many versions: pages from the newest to the oldest, the same as those of the command."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import jsonschema
import pytest

from ui.app import create_app
from ui.catalogue import Catalogue
from zerofleet.cli import main
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.testing.many_models import publish_chain

MODELS = "/api/v1/runs/long/models"


@pytest.fixture(scope="module")
def folder(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run of twelve versions, of which 1, 2 and 7 were champion."""
    root = shutil.copytree(runs / "golden", tmp_path_factory.mktemp("many") / "long")
    publish_chain(root / "models", 12, champions={7})
    return root.parent


@pytest.fixture
async def many(folder: Path, connected) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Catalogue(folder, None))
    async with app.router.lifespan_context(app), connected(app) as made:
        yield made


async def test_pages_of_versions_lead_from_the_newest_to_the_oldest_without_gap_or_repetition(many):
    seen, before = [], None
    while True:
        asked = {"limit": 5} | ({} if before is None else {"before": before})
        found = (await many.get(MODELS, params=asked)).json()
        assert found["total"] == 12
        assert len(found["versions"]) <= 5
        seen += [row["version"] for row in found["versions"]]
        if (before := found["next_before"]) is None:
            break
    assert seen == [*range(12, 0, -1)]


async def test_champions_alone_are_counted_and_paged(many):
    found = (await many.get(MODELS, params={"champions": 1, "limit": 2})).json()
    assert ([row["version"] for row in found["versions"]], found["total"], found["next_before"]) == ([7, 2], 3, 2)
    rest = (await many.get(MODELS, params={"champions": 1, "limit": 2, "before": 2})).json()
    assert ([row["version"] for row in rest["versions"]], rest["next_before"]) == ([1], None)


async def test_every_page_names_the_champion_although_an_older_version_was_restored(runs, tmp_path, connected):
    root = shutil.copytree(runs / "golden", tmp_path / "long")
    publish_chain(root / "models", 12, champions={7, 9})
    DirectoryStore(root / "models").write_champion("tic_tac_toe", 2, epoch=20, reason="rollback")
    app = create_app(Catalogue(tmp_path, None))
    async with app.router.lifespan_context(app), connected(app) as client:
        newest = (await client.get(MODELS, params={"limit": 3})).json()
        with_one_before = (await client.get(MODELS, params={"champions": 1, "limit": 2, "before": 3})).json()
    assert (newest["champion"], [row["version"] for row in newest["versions"]]) == (2, [12, 11, 10])
    assert [(row["version"], row["is_champion"]) for row in with_one_before["versions"]] == [(2, True), (1, False)]


async def test_a_version_names_its_ancestors_up_to_the_bound(many):
    assert (await many.get(f"{MODELS}/12")).json()["ancestors"] == [11, 10, 9, 8, 7, 6, 5, 4]
    assert (await many.get(f"{MODELS}/4")).json()["ancestors"] == [3, 2]  # the parent of 2 is version 0
    assert (await many.get(f"{MODELS}/1")).json()["ancestors"] == []


async def test_the_lineage_ends_where_an_ancestor_was_deleted(runs, tmp_path, connected):
    root = shutil.copytree(runs / "golden", tmp_path / "long")
    publish_chain(root / "models", 6, champions=())
    shutil.rmtree(root / "models" / "tic_tac_toe" / "4")
    app = create_app(Catalogue(tmp_path, None))
    async with app.router.lifespan_context(app), connected(app) as client:
        assert (await client.get(f"{MODELS}/6")).json()["ancestors"] == [5]


@pytest.mark.parametrize("options", ["limit=3", "limit=3&before=6", "champions=1", "champions=1&before=7"])
async def test_the_command_prints_the_page_that_the_api_returns(many, folder, options, capsys):
    words = [
        word
        for name, value in (one.split("=") for one in options.split("&"))
        for word in ([f"--{name}"] if name == "champions" else [f"--{name}", value])
    ]
    with pytest.raises(SystemExit):
        main(["models", "list", "tic_tac_toe", "--run-dir", str(folder / "long"), *words, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["versions"]
    assert (await many.get(f"{MODELS}?{options}")).json() == told


def test_the_table_of_the_command_says_how_to_read_on(folder, capsys):
    with pytest.raises(SystemExit):
        main(["models", "list", "tic_tac_toe", "--run-dir", str(folder / "long"), "--limit", "3"])
    assert "3 of 12 versions; older ones: --before 10" in capsys.readouterr().out


def test_a_gatekeeper_that_is_asked_for_a_page_is_refused_with_the_reason(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["models", "list", "tic_tac_toe", "--address", "127.0.0.1:1", "--limit", "3"])
    assert ended.value.code
    assert "leave out --limit" in capsys.readouterr().err


@pytest.mark.parametrize("asked", ["limit=0", "limit=501", "before=-1", "before=x", "champions=2"])
async def test_a_page_outside_of_the_bounds_is_refused_with_them(many, asked):
    answer = await many.get(f"{MODELS}?{asked}")
    assert answer.status_code == 400
    assert asked.partition("=")[0] in answer.json()["error"]


async def test_the_openapi_document_has_the_parameters_and_the_schema_of_a_page(many):
    document = (await many.get("/api/v1/openapi.json")).json()
    told = document["paths"]["/api/v1/runs/{run}/models"]["get"]["parameters"]
    assert [one["name"] for one in told] == ["run", "limit", "before", "champions"]
    schema = {"$ref": "#/components/schemas/ModelList", "components": document["components"]}
    jsonschema.validate((await many.get(f"{MODELS}?limit=2")).json(), schema)
