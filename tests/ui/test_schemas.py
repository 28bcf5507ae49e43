"""One schema for `--json` and the API: each command prints the value that the API returns for the same thing."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from pydantic import BaseModel

from ui.app import create_app
from ui.catalogue import Catalogue
from zerofleet.cli import main, screen
from zerofleet.cli.app import COMMANDS
from zerofleet.cli.lazy import load
from zerofleet.storage.runs import RunDirectory
from zerofleet.testing.compared_runs import make_compared_run

API = "/api/v1"
TIME = re.compile(r"\d{4}-\d\d-\d\dT")
VOLATILE = {"seconds", "at", "elapsed_s"}


@dataclass(frozen=True)
class Twin:
    """Command with the path of the API that returns the same value; `{folder}` and `{uid}` are those of the test."""

    command: str
    path: str
    declared: str
    """The path as the OpenAPI document has it."""
    within: str = ""
    """Field of the answer that is the value; empty for the answer itself."""
    part: str = ""
    """Field of what the command prints; empty for all of it."""
    is_equal: bool = True
    """Whether the values are equal; else the schemas alone."""


TWINS = (
    Twin("runs --runs {folder}", "/runs", "/runs"),
    Twin("status {folder}/golden", "/runs/golden", "/runs/{run}"),
    Twin("status {folder}/golden", "/runs/golden/overview", "/runs/{run}/overview", part="overview"),
    Twin("curves --run-dir {folder}/golden", "/runs/golden/curves", "/runs/{run}/curves"),
    Twin("curves --run-dir {folder}/golden --points 3", "/runs/golden/curves?points=3", "/runs/{run}/curves"),
    Twin("plan --gpus 3 --workers 50", "/runs/four/cluster?gpus=3&workers=50", "/runs/{run}/cluster", within="plan"),
    Twin("models list tic_tac_toe --run-dir {folder}/golden", "/runs/golden/models", "/runs/{run}/models"),
    Twin("models show tic_tac_toe 2 --run-dir {folder}/golden", "/runs/golden/models/2", "/runs/{run}/models/{version}"),
    Twin(
        "models compare tic_tac_toe 1 2 --run-dir {folder}/pair",
        "/runs/pair/compare?first=1&second=2",
        "/runs/{run}/compare",
        part="versions",
    ),
    Twin(
        "models compare tic_tac_toe 1 2 --run-dir {folder}/pair",
        "/runs/pair/compare/positions?first=1&second=2",
        "/runs/{run}/compare/positions",
        part="opinions",
    ),
    Twin("games available", "/games", "/games"),
    Twin("games list tic_tac_toe --limit 9 --run-dir {folder}/golden", "/runs/golden/games?limit=9", "/runs/{run}/games"),
    Twin("games show tic_tac_toe {uid} --run-dir {folder}/golden", "/runs/golden/games/{uid}", "/runs/{run}/games/{uid}"),
    Twin(
        "ladder tic_tac_toe --games 0 --rungs random --run-dir {folder}/pair",
        "/runs/pair/ladder/games",
        "/runs/{run}/ladder/games",
        within="table",
        is_equal=False,  # the page plans at least a game for each pair, which the command would play
    ),
    Twin(
        "solve connect_four --set rows=4 --set columns=5 --moves c1,c2,c3,b1",
        "/solver?rows=4&columns=5&moves=c1,c2,c3,b1",
        "/solver",
    ),
)
ALONE = frozenset(
    {
        *("accuracy", "agents", "behaviour", "certs", "doctor", "evaluate", "games check", "match", "report", "reproduce"),
        *("models promote", "models rollback", "models verify", "tournament", "version"),
    }
)
"""Commands with `--json` whose values the API does not return."""


@pytest.fixture(scope="module")
def folder(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the golden run, one of Connect Four, and one of two perceptrons."""
    made = tmp_path_factory.mktemp("twins")
    shutil.copytree(runs / "golden", made / "golden")
    make_compared_run(made / "pair")
    with RunDirectory.create_or_open(made / "four", "connect_four", {}, preset="laptop", seed=1):
        pass
    return made


@pytest.fixture
async def pages(folder: Path, connected) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Catalogue(folder, None))
    async with app.router.lifespan_context(app), connected(app) as made:
        yield made


def steady(value: Any) -> Any:
    """Return a value without durations and the time of the call."""
    if isinstance(value, dict):
        return {name: steady(entry) for name, entry in value.items() if name not in VOLATILE}
    return [steady(entry) for entry in value] if isinstance(value, list) else value


@pytest.mark.slow
@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: f"{twin.command.partition(' --')[0]} {twin.part}".strip())
async def test_a_command_prints_the_value_of_the_api_with_its_schema(twin, pages, folder, capsys, monkeypatch):
    printed: list[BaseModel] = []
    emit = screen.emit_value
    monkeypatch.setattr(screen, "emit_value", lambda value: (printed.append(value), emit(value)))
    uid = (await pages.get(f"{API}/runs/golden/games")).json()["games"][0]["uid"]
    words = [word.format(folder=folder, uid=uid) for word in twin.command.split(" ")]
    with pytest.raises(SystemExit) as ended:
        await asyncio.to_thread(main, [*words, "--json"])
    assert not ended.value.code
    told = json.loads(capsys.readouterr().out)
    answer = await pages.get(API + twin.path.format(uid=uid))
    assert answer.status_code == 200, answer.text
    value, shown = (told[twin.part] if twin.part else told), answer.json()
    assert not twin.is_equal or steady(shown[twin.within] if twin.within else shown) == steady(value)
    assert isinstance(told, dict)
    assert all(time.tzinfo is not None for time in times(told))

    document = (await pages.get(f"{API}/openapi.json")).json()
    schemas = document["components"]["schemas"]
    (said,) = document["paths"][API + twin.declared]["get"]["responses"]["200"]["content"].values()
    declared = resolved(said["schema"], schemas)
    if twin.within:
        declared = next(resolved(one, schemas) for one in declared["properties"][twin.within]["anyOf"] if "$ref" in one)
    own = printed[0].model_json_schema(mode="serialization")
    of_command = own if not twin.part else resolved(own["properties"][twin.part], own["$defs"])
    assert bare(of_command) == bare(declared)
    jsonschema.validate(value, {**declared, "components": document["components"]})


def times(value: Any) -> Iterator[datetime]:
    """Yield every time of a value."""
    for entry in value.values() if isinstance(value, dict) else value:
        if isinstance(entry, dict | list):
            yield from times(entry)
        elif isinstance(entry, str) and TIME.match(entry):
            yield datetime.fromisoformat(entry)


def resolved(schema: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that a reference names."""
    found: dict[str, Any] = known[schema["$ref"].rpartition("/")[2]]
    return found


def bare(schema: Any) -> Any:
    """Return a schema with the names of its parts alone; places of definitions differ between documents."""
    if isinstance(schema, dict):
        return {
            name: entry.rpartition("/")[2] if name == "$ref" else bare(entry)
            for name, entry in schema.items()
            if name != "$defs"
        }
    return [bare(entry) for entry in schema] if isinstance(schema, list) else schema


def test_every_command_with_json_has_its_twin_in_the_api_or_none():
    every = (load(name, command) for name, command in COMMANDS.items() if name != "bench")
    found = {name for command in every for name in with_json(command, command.name)}
    twins = {name for name in found if any(f"{twin.command} ".startswith(f"{name} ") for twin in TWINS)}
    assert found - twins == ALONE


def with_json(command: Any, name: str) -> Iterator[str]:
    """Yield the words of every command with the option `--json`."""
    for word, found in getattr(command, "commands", {}).items():
        yield from with_json(found, f"{name} {word}")
    if any("--json" in parameter.opts for parameter in command.params):
        yield name
