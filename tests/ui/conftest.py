"""A folder with a small golden run, and the application over it, called in this process."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest

import games
from ui.app import create_app
from ui.catalogue import Catalogue
from zerofleet.contracts.gate_events import StatusChanged, Submitted
from zerofleet.contracts.promotions import CandidateStatus, MatchReport
from zerofleet.contracts.records import encode_record
from zerofleet.contracts.records.samples import random_game
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.runs import RunDirectory
from zerofleet.testing.models import sample_files, sample_manifest

BASE = "http://127.0.0.1:8765"
GAME = games.make("tic_tac_toe")
BEGAN_S = 1_795_399_200.0  # 2026-11-23T02:00:00Z
ROWS = 12


def uid(number: int) -> str:
    return f"{number:04x}" + "ab" * 14


def make_run(root: Path) -> None:
    """Make a stopped run: 9 games, 12 rows of metrics, 2 versions of which the second was promoted by a match."""
    with RunDirectory.create_or_open(root, "tic_tac_toe", {}, preset="tiny", seed=1) as run:
        with GameLog.open(run.paths.replay, writer=True) as log:
            played = [random_game(GAME, number, version=number + 1) for number in range(9)]
            made = [
                (uid(n), encode_record(p, worker_id="worker-0", uid=uid(n), finished_at_ms=0)) for n, p in enumerate(played)
            ]
            log.append(made)
        store = DirectoryStore(run.paths.models)
        for version in (1, 2):
            assert store.publish("tic_tac_toe", sample_files(float(version)), sample_manifest()) == version
            store.write_champion("tic_tac_toe", version, epoch=version, reason=f"promotion {version}")
        journal = EventJournal(run.paths.gatekeeper / JOURNAL_FILE, model="tic_tac_toe")
        report = MatchReport(1, 6, 2, 2, (0, 1, 1, 2, 1), 0.7, 0.5, 0.9, 2.94)
        decided = [(1, None), (2, report)]
        journal.rewrite(
            event
            for version, match in decided
            for event in (
                Submitted(version=version, manifest_sha256="0" * 64),
                StatusChanged(version=version, status=CandidateStatus.PROMOTED, reason="stronger", report=match),
            )
        )
        trainer = [
            {"time": BEGAN_S + 5 * i, "step": 10 * i, "losses/total": 2.0 / (i + 1), "charts/games_ever": float(i)}
            for i in range(ROWS)
        ]
        history = [
            {"at": f"2026-11-23T02:{i:02}:00+00:00", "elapsed_s": 60.0 * i, "step": 10 * i}
            | {"games": 4 * i, "games_stored": i, "moves": 28 * i}
            for i in range(ROWS)
        ]
        for name, rows in (("trainer", trainer), ("run", history)):
            (run.paths.metrics / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run called `golden`; tests only read it."""
    folder = tmp_path_factory.mktemp("runs")
    make_run(folder / "golden")
    return folder


@pytest.fixture
async def client(runs: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of the application over the golden run."""
    catalogue = Catalogue(runs, None)
    app = create_app(catalogue, max_tables=2)
    async with app.router.lifespan_context(app), connected(app) as made:
        yield made


@pytest.fixture(name="connected")
def _connected() -> Callable[[object], httpx.AsyncClient]:
    """Return the function that makes a client of an application."""
    return connected


@pytest.fixture
def append_game() -> Callable[[Path, int], None]:
    """Return the function that stores a further random game in a run."""
    return append


def append(root: Path, number: int) -> None:
    """Store random game `number` in a run."""
    with GameLog.open(root / "replay", writer=True) as log:
        record = encode_record(random_game(GAME, number), worker_id="worker-0", uid=uid(number), finished_at_ms=0)
        log.append([(uid(number), record)])


def connected(app: object) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=BASE)


@pytest.fixture
async def uid_of(client: httpx.AsyncClient) -> str:
    """Return the uid of the newest game of the golden run."""
    listed = (await client.get("/api/v1/runs/golden/games")).json()
    return str(listed["games"][0]["uid"])
