"""A worker whose gatekeeper or stream answers with an error."""

from __future__ import annotations

import asyncio
import random

import pytest

from selfplay_worker import worker
from selfplay_worker.game_register import FinishedGame
from selfplay_worker.publisher import Publisher
from zerofleet.contracts.promotions import Champion
from zerofleet.errors import CorruptModel, InvalidRequest, PermissionRefused, StaleEpoch, Unavailable, ZerofleetError
from zerofleet.storage.streams import Publication


class Scripted:
    """Gatekeeper and stream whose calls fail in turn with `failures`, then succeed."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.published: list[str] = []

    async def champion(self, model: str) -> Champion | None:
        self._fail()
        return None

    async def publish_all(self, games: list[Publication]) -> None:
        self._fail()
        self.published += [game.uid for game in games]
        games.clear()

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


def game(uid: str) -> FinishedGame:
    return FinishedGame(uid=uid, payload=b"record")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selfplay_worker.worker.ASK_AGAIN_S", 0.0)
    monkeypatch.setattr("selfplay_worker.publisher.FIRST_PAUSE_S", 0.0)


async def test_the_worker_asks_for_the_champion_until_the_gatekeeper_has_an_answer() -> None:
    failures = [Unavailable("away"), ZerofleetError("internal error 4f1c"), CorruptModel("pointer"), StaleEpoch("taken over")]
    assert not await worker._has_champion(Scripted(*failures), "tic_tac_toe")  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [InvalidRequest("another game"), PermissionRefused("wrong token")])
async def test_the_worker_ends_when_the_gatekeeper_will_never_have_one(error: Exception) -> None:
    with pytest.raises(type(error)):
        await worker._has_champion(Scripted(error), "tic_tac_toe")  # type: ignore[arg-type]


async def test_no_game_is_lost_to_a_password_that_changes_during_a_run() -> None:
    stream = Scripted()
    publisher = Publisher(stream, "tic_tac_toe", capacity=8, rng=random.Random(0))  # type: ignore[arg-type]
    running = asyncio.create_task(publisher.run())
    for uid, failures in (("1", 0), ("2", 2)):
        stream.failures = [PermissionRefused("wrong password")] * failures
        publisher.hand_over(game(uid))
        async with asyncio.timeout(60):
            await publisher.flush()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert stream.published == ["1", "2"]


async def test_a_wrong_password_at_the_start_ends_the_worker() -> None:
    publisher = Publisher(Scripted(PermissionRefused("wrong password")), "tic_tac_toe", capacity=8, rng=random.Random(0))  # type: ignore[arg-type]
    publisher.hand_over(game("1"))
    with pytest.raises(PermissionRefused):
        await publisher.run()
