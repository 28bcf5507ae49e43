"""Export of a stored game: each kind of file, the view of a seat, and what is refused."""

from __future__ import annotations

import io
import json

import pytest
from PIL import Image

EXPORT = "/api/v1/runs/golden/games/{uid}/export"


@pytest.mark.parametrize("kind", ["gif", "png"])
async def test_pictures_of_a_game_are_files_of_their_kind_with_a_name(client, uid_of, kind):
    answer = await client.get(EXPORT.format(uid=uid_of), params={"kind": kind})
    assert (answer.status_code, answer.headers["content-type"]) == (200, f"image/{kind}")
    assert answer.headers["content-disposition"] == f'attachment; filename="tic_tac_toe-{uid_of[:12]}.{kind}"'
    assert Image.open(io.BytesIO(answer.content)).format == kind.upper()
    assert "x-zerofleet-note" not in answer.headers  # every position is shown


async def test_the_lines_of_a_game_are_the_values_of_its_replay(client, uid_of):
    facts, *moves = map(json.loads, (await client.get(EXPORT.format(uid=uid_of), params={"kind": "jsonl"})).text.splitlines())
    replay = (await client.get(f"/api/v1/runs/golden/games/{uid_of}")).json()
    assert {name: facts[name] for name in replay if name != "moves"} == {n: v for n, v in replay.items() if n != "moves"}
    assert facts["game"] == "tic_tac_toe"
    assert [{name: value for name, value in move.items() if name != "line"} for move in moves] == replay["moves"]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({}, "'' is not a kind of export; choose gif, png, svg, jsonl"),
        ({"kind": "exe"}, "'exe' is not a kind of export"),
        ({"kind": "png", "seat": "3"}, "seat='3' is out of range"),
        ({"kind": "jsonl", "seat": "1"}, "export them without a seat"),
    ],
)
async def test_an_export_that_cannot_be_made_is_refused_with_its_reason(client, uid_of, query, reason):
    answer = await client.get(EXPORT.format(uid=uid_of), params=query)
    assert answer.status_code == 400
    assert reason in answer.json()["error"]
