"""Ladder and matches of a run in the API: the values of the report and of `zerofleet models`, and positions of a match."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import httpx
import jsonschema
import pytest
from PIL import Image

import games
import ui
from ui.app import create_app
from ui.catalogue import Catalogue
from zerofleet.cli import main
from zerofleet.contracts.gate_events import TRIAL_MATCH, ModelPlay, StatusChanged, Submitted, Tallied
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.library.match_rows import KINDS, VERDICTS, Kind, MatchList, MatchQuery, MatchRow, Stage, page_of
from zerofleet.presets.commented import commented
from zerofleet.presets.experiment import Experiment
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.strength.matches import SequentialTest
from zerofleet.strength.ratings import Sprt
from zerofleet.testing.gate_matches import sample_match

GAME = games.make("tic_tac_toe")
RULE = SequentialTest(Sprt(-30.0, 60.0, 0.05, 0.05))
MATCH = "gate/2/1/1"
SETTINGS = {"gate.mode": "sprt", "gate.elo0": "-30", "gate.elo1": "60"}


@pytest.fixture(scope="module")
def folder(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run whose versions have played a match, and of which the first has met `random`."""
    root = shutil.copytree(runs / "golden", tmp_path_factory.mktemp("gate") / "rated")
    (root / "experiment.toml").write_text(commented(Experiment("tic_tac_toe", "tiny", 1, settings=SETTINGS)))
    promoted = (Submitted(version=1, manifest_sha256="0" * 64), StatusChanged(version=1, status=CandidateStatus.PROMOTED))
    match = sample_match(GAME, RULE, match_id=MATCH, version=2, opponent=1, groups=4, status=CandidateStatus.PROMOTED)
    met = Tallied(first="model:1", second="random", points=15, games=20)
    EventJournal(root / "gatekeeper" / JOURNAL_FILE, model="tic_tac_toe").rewrite([*promoted, *match, met])
    return root.parent


@pytest.fixture
async def gate(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Catalogue(folder, None))
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://localhost") as made:
        yield made


async def test_the_ladder_has_anchored_ratings_with_their_intervals_and_the_games_behind_them(gate):
    found = (await gate.get("/api/v1/runs/rated/ladder")).json()
    assert (found["champion"], found["is_anchored"]) == (2, True)
    by_name = {player["name"]: player for player in found["players"]}
    first, anchor = by_name["model:1"], by_name["random"]
    assert first["elo_low"] < first["elo"] < first["elo_high"]
    assert anchor["elo"] == 0.0
    assert {"opponent": "random", "games": 20, "share": 0.75} in first["meetings"]
    assert {"opponent": "model:1", "games": 20, "share": 0.25} in anchor["meetings"]


async def test_the_lists_of_models_ladder_and_matches_are_those_of_the_command_line(gate, folder, capsys):
    root = folder / "rated"
    models, report = (
        printed(capsys, *words)
        for words in (("models", "list", "tic_tac_toe", "--run-dir", str(root), "--json"), ("report", str(root), "--json"))
    )
    answers = {name: (await gate.get(f"/api/v1/runs/rated/{name}")).json() for name in ("models", "ladder", "matches")}
    assert answers["models"] == models == report["models"]
    assert answers["ladder"] == report["ladder"]
    assert answers["matches"] == report["matches"]
    status = (await gate.get("/api/v1/runs/rated")).json()
    assert status.pop("overview") == report["overview"]
    assert status == report["run"]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    with pytest.raises(SystemExit):
        main([*words])
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


async def test_pages_of_matches_lead_from_the_newest_to_the_oldest_although_a_new_one_begins(runs, tmp_path, connected):
    root, path = shutil.copytree(runs / "golden", tmp_path / "long"), tmp_path / "long" / "gatekeeper" / JOURNAL_FILE
    played = [sample_match(GAME, RULE, match_id=f"gate/{n}/1/1", version=n, opponent=1, groups=1) for n in range(2, 10)]
    EventJournal(path, model="tic_tac_toe").rewrite([event for match in played[:-1] for event in match])
    app, seen, before = create_app(Catalogue(tmp_path, None)), [], {}
    async with app.router.lifespan_context(app), connected(app) as client:
        while before is not None:
            found = (await client.get(f"/api/v1/runs/{root.name}/matches", params={"limit": 3, **before})).json()
            seen += [row["version"] for row in found["matches"]]
            before = None if found["next_before"] is None else {"before": found["next_before"]}
            if len(seen) == 3:
                for event in played[-1]:
                    EventJournal(path, model="tic_tac_toe").append(event)
    assert seen == [8, 7, 6, 5, 4, 3, 2]
    assert found["total"] == 8


def listed(*versions: int) -> MatchList:
    """Return the list of matches of versions against version 1, each without games."""
    about = {"id": "", "kind": "", "opponent": 1, "state": "decided", "status": "", "reason": "", "pairs": 0}
    scores = {
        "wins": 0,
        "draws": 0,
        "losses": 0,
        "pentanomial": (0, 0, 0, 0, 0),
        "is_begun": False,
        "log_likelihood_ratio": 0.0,
    }
    bounds = {"share": 0.5, "share_low": 0.0, "share_high": 1.0, "llr_low": None, "llr_high": None}
    rows = [MatchRow.model_validate({**about, **scores, **bounds, "version": version}) for version in versions]
    return MatchList(matches=tuple(rows), total=len(rows), next_before=None, rule="", fault="")


def test_pages_of_matches_neither_skip_nor_repeat_one_although_the_oldest_verdict_is_dropped() -> None:
    first = page_of(listed(*range(8, 0, -1)), MatchQuery(limit=3))
    assert [row.version for row in first.matches] == [8, 7, 6]
    second = page_of(listed(*range(9, 2, -1)), MatchQuery(limit=3, before=first.next_before))
    assert [row.version for row in second.matches] == [5, 4, 3]
    assert second.next_before is None


def test_pages_of_matches_end_between_versions() -> None:
    rows = listed(4, 4, 3, 3, 3, 2)
    first = page_of(rows, MatchQuery(limit=2))
    assert [row.version for row in first.matches] == [4, 4, 3, 3, 3]
    assert (first.next_before, first.total) == (3, 6)
    last = page_of(rows, MatchQuery(limit=2, before=first.next_before))
    assert ([row.version for row in last.matches], last.next_before) == ([2], None)
    nothing = page_of(rows, MatchQuery(limit=2, before=2))
    assert (nothing.matches, nothing.next_before, nothing.total) == ((), None, 6)


async def test_matches_are_listed_by_version_although_a_later_one_was_decided_before(runs, tmp_path, connected):
    root, path = shutil.copytree(runs / "golden", tmp_path / "mixed"), tmp_path / "mixed" / "gatekeeper" / JOURNAL_FILE
    played = [
        sample_match(GAME, RULE, match_id=f"gate/{version}/1/{place}", version=version, opponent=1, groups=1)
        for place, version in enumerate((3, 2, 4, 2))
    ]
    EventJournal(path, model="tic_tac_toe").rewrite([event for match in played for event in match])
    app = create_app(Catalogue(tmp_path, None))
    async with app.router.lifespan_context(app), connected(app) as client:
        found = (await client.get(f"/api/v1/runs/{root.name}/matches")).json()
    assert [row["id"] for row in found["matches"]] == ["gate/4/1/2", "gate/3/1/0", "gate/2/1/3", "gate/2/1/1"]


async def test_the_matches_of_a_version_are_found_among_all(gate):
    for asked, total in (({"version": 2}, 1), ({"version": 2, "opponent": 1}, 1), ({"version": 2, "opponent": 3}, 0)):
        found = (await gate.get("/api/v1/runs/rated/matches", params=asked)).json()
        assert (found["total"], len(found["matches"]), found["next_before"]) == (total, total, None)


async def test_matches_are_filtered_by_verdict_opponent_and_kind_and_paged_among_those_that_fit(runs, tmp_path, connected):
    root, path = shutil.copytree(runs / "golden", tmp_path / "mixed"), tmp_path / "mixed" / "gatekeeper" / JOURNAL_FILE
    statuses = dict.fromkeys(range(2, 10), CandidateStatus.REJECTED) | {3: CandidateStatus.PROMOTED, 9: None}
    played = [
        sample_match(GAME, RULE, match_id=f"gate/{n}/1/1", version=n, opponent=1 if n < 6 else 3, groups=1, status=status)
        for n, status in statuses.items()
    ]
    terms = {"version": 4, "opponent": 3, "groups": 1, "status": CandidateStatus.UNPROVEN}
    measured = sample_match(GAME, RULE, match_id=f"{TRIAL_MATCH}4/3/1", **terms)
    EventJournal(path, model="tic_tac_toe").rewrite([event for match in (*played, measured) for event in match])
    app = create_app(Catalogue(tmp_path, None))
    async with app.router.lifespan_context(app), connected(app) as client:

        async def listed(**asked: object) -> tuple[list[int], int, int | None]:
            found = (await client.get(f"/api/v1/runs/{root.name}/matches", params=asked)).json()
            return [row["version"] for row in found["matches"]], found["total"], found["next_before"]

        assert await listed(verdict="promoted") == ([3], 1, None)
        assert await listed(verdict="open") == ([9], 1, None)
        assert await listed(kind="measurement") == ([4], 1, None)
        assert await listed(opponent=3, verdict="rejected") == ([8, 7, 6], 3, None)
        first = await listed(verdict="rejected", kind="gate", limit=3)
        assert first == ([8, 7, 6], 5, 6)
        assert await listed(verdict="rejected", kind="gate", limit=3, before=6) == ([5, 2], 5, None)
        assert await listed(verdict="superseded") == ([], 0, None)


@pytest.mark.parametrize("asked", ["limit=0", "limit=501", "before=-1", "version=x", "verdict=lost", "kind=", "opponent=-2"])
async def test_a_page_of_matches_outside_of_the_bounds_is_refused_with_them(gate, asked):
    answer = await gate.get(f"/api/v1/runs/rated/matches?{asked}")
    assert answer.status_code == 400
    assert asked.partition("=")[0] in answer.json()["error"]


async def test_a_match_has_its_path_between_the_bounds_and_its_pairs(gate):
    found = (await gate.get("/api/v1/runs/rated/match", params={"id": MATCH})).json()
    assert (found["llr_low"], found["llr_high"]) == (RULE.sprt.lower, RULE.sprt.upper)
    assert found["path"][0] == 0.0
    assert len(found["path"]) == found["pairs"] + 1 == 5
    assert all(len(pair["games"]) == 2 for pair in found["games"])


@pytest.mark.parametrize(
    ("play", "words"),
    [
        (
            ModelPlay(simulations=64, leaves_per_game=4, search="root=puct"),
            "64 simulations a move, 4 leaves a request, root=puct",
        ),
        (ModelPlay(simulations=1200, leaves_per_game=1, search=""), "1,200 simulations a move, 1 leaf a request"),
        (ModelPlay(simulations=0, leaves_per_game=4, search=""), "the policy without search"),
        (None, ""),  # journals of earlier builds
    ],
)
async def test_a_match_states_how_its_versions_choose_their_moves(runs, tmp_path, connected, play, words):
    root = shutil.copytree(runs / "golden", tmp_path / "stated")
    match = sample_match(GAME, RULE, match_id=MATCH, version=2, opponent=1, groups=1, play=play)
    EventJournal(root / "gatekeeper" / JOURNAL_FILE, model="tic_tac_toe").rewrite(match)
    app = create_app(Catalogue(tmp_path, None))
    async with app.router.lifespan_context(app), connected(app) as client:
        found = (await client.get(f"/api/v1/runs/{root.name}/match", params={"id": MATCH})).json()
    assert found["play"] == words


async def test_a_match_is_that_of_the_openapi_document(gate):
    document = (await gate.get("/api/v1/openapi.json")).json()
    schema = {"$ref": "#/components/schemas/MatchDetail", "components": document["components"]}
    jsonschema.validate((await gate.get("/api/v1/runs/rated/match", params={"id": MATCH})).json(), schema)
    asked = document["paths"]["/api/v1/runs/{run}/match"]["get"]["parameters"]
    assert [(one["name"], one["required"]) for one in asked] == [("run", True), ("id", True)]


async def test_every_position_of_a_match_is_drawn(gate):
    asked = {"id": MATCH, "pair": 1, "game": 2}
    (first, *_) = (await gate.get("/api/v1/runs/rated/match", params={"id": MATCH})).json()["games"]
    for ply in range(len(first["games"][1]["moves"]) + 1):
        board = await gate.get("/api/v1/runs/rated/match/board", params={**asked, "ply": ply})
        assert board.headers["content-type"].startswith("image/svg+xml")
        assert board.text.count("<text") == 6 + ply  # the names of columns and rows, and the marks


async def test_no_browser_keeps_a_board_of_a_match_whose_id_a_run_that_is_made_again_has_too(gate):
    board = await gate.get("/api/v1/runs/rated/match/board", params={"id": MATCH})
    assert board.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("kind", ["gif", "png"])
async def test_a_game_of_a_match_is_a_picture_file_with_the_name_of_its_place(gate, kind):
    answer = await gate.get("/api/v1/runs/rated/match/export", params={"id": MATCH, "pair": 2, "game": 2, "kind": kind})
    assert answer.headers["content-disposition"] == f'attachment; filename="tic_tac_toe-gate-2-1-1-pair-2-game-2.{kind}"'
    assert Image.open(io.BytesIO(answer.content)).format == kind.upper()


async def test_the_strip_of_a_game_of_a_match_has_a_board_for_each_position(gate):
    asked = {"id": MATCH, "pair": 2, "game": 2}
    detail = (await gate.get("/api/v1/runs/rated/match", params={"id": MATCH})).json()
    played = next(pair for pair in detail["games"] if pair["number"] == 2)["games"][1]
    answer = await gate.get("/api/v1/runs/rated/match/export", params={**asked, "kind": "svg"})
    assert answer.text.count("<svg") == 1 + len(played["moves"]) + 1
    facts, *moves = map(
        json.loads, (await gate.get("/api/v1/runs/rated/match/export", params={**asked, "kind": "jsonl"})).text.splitlines()
    )
    assert [move["move"] for move in moves] == played["moves"]
    assert (facts["pair"], facts["number"], facts["points"]) == (2, 2, played["points"])
    assert facts["players"] == ["model:1", "model:2"]
    assert [move["model_version"] for move in moves[:3]] == [0, 2, 1]  # the opening is nobody's move
    assert all(move["value"] is None for move in moves)


@pytest.mark.parametrize("asked", [{"pair": 9}, {"game": 3}, {"kind": "exe"}, {"seat": 3}, {"pair": "x"}])
async def test_a_game_of_a_match_that_cannot_be_exported_is_refused_with_the_reason(gate, asked):
    answer = await gate.get("/api/v1/runs/rated/match/export", params={"id": MATCH, "kind": "gif"} | asked)
    assert answer.status_code == 400
    assert answer.json()["error"]


async def test_a_version_names_the_match_whose_path_its_page_shows(gate):
    assert (await gate.get("/api/v1/runs/rated/models/2")).json()["match_id"] == MATCH
    assert (await gate.get("/api/v1/runs/rated/models/1")).json()["match_id"] == ""


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("match", 404),
        ("match?id=gate/9/9/9", 404),
        (f"match/board?id={MATCH}&pair=9", 400),
        (f"match/board?id={MATCH}&pair=1&game=3", 400),
        (f"match/board?id={MATCH}&ply=99", 400),
        (f"match/board?id={MATCH}&ply=-1", 400),
    ],
)
async def test_a_match_that_is_not_there_is_refused_with_a_line_that_states_why(gate, path, status):
    answer = await gate.get(f"/api/v1/runs/rated/{path}")
    assert answer.status_code == status
    assert answer.json()["error"]


def test_the_filter_offers_every_verdict_that_a_decided_match_can_have():
    decided = {status.value for status in CandidateStatus if status.settled}
    assert set(VERDICTS) == decided | set(get_args(Stage)) - {"decided"}
    assert set(KINDS) == set(get_args(Kind)) - {""}
    form = (Path(ui.__file__).parent / "templates" / "matches.html").read_text()
    assert all(f'"{word}"' in form for word in (*VERDICTS, *KINDS))
