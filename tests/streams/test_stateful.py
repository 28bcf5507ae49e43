"""Any order of publishing, consuming, crashing, acknowledging, burying and waiting: no game is lost, none comes back.

The model knows of each published game whether it waits, is pending (with whom, how often delivered, idle or not), was
acknowledged, or is dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from zerofleet.storage.streams import POISON, Delivery, GameStream


class Backend(Protocol):
    def open(self) -> GameStream: ...

    async def age(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


MakeBackend = Callable[..., Backend]
Result = TypeVar("Result")

HIGH_WATER = 8
MAX_DELIVERIES = 3
IDLE_S = 1000.0
CONSUMERS = ["trainer-0", "trainer-1"]


@dataclass
class Game:
    uid: str
    state: str = "waiting"  # pending, acknowledged, dead
    consumer: str = ""
    held: bool = False  # by a live process of that consumer
    idle: bool = False
    deliveries: int = 0
    entry: Delivery | None = None

    def may_come_to(self, consumer: str) -> bool:
        left = self.state == "pending" and (self.idle or (self.consumer == consumer and not self.held))
        return self.state == "waiting" or (left and self.deliveries < MAX_DELIVERIES)


class StreamMachine(RuleBasedStateMachine):
    make_backend: MakeBackend

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.backend = self.make_backend(high_water=HIGH_WATER, max_deliveries=MAX_DELIVERIES, idle_s=IDLE_S, poll_s=0.001)
        self.publisher = self.backend.open()
        self.games: list[Game] = []  # in the order of publishing
        self.published = 0

    def wait(self, call: Awaitable[Result]) -> Result:
        async def bounded() -> Result:
            async with asyncio.timeout(60):
                return await call

        return self.runner.run(bounded())

    @initialize()
    def open_consumers(self) -> None:
        self.streams = {name: self.backend.open() for name in CONSUMERS}

    def live(self) -> list[Game]:
        return [game for game in self.games if game.state in ("waiting", "pending")]

    def pending(self) -> list[Game]:
        return [game for game in self.games if game.state == "pending" and game.entry is not None]

    @rule(again=st.booleans())
    def publish(self, again: bool) -> None:
        """A new game, or the last one once more, as after a lost answer."""
        number = self.published - 1 if again and self.published else self.published
        uid = f"game-{number}"

        async def attempt() -> bool:
            try:
                async with asyncio.timeout(60 if room else 0.01):
                    await self.publisher.publish(uid, uid.encode())
            except TimeoutError:
                return False
            return True

        room = len(self.live()) < HIGH_WATER
        published = self.runner.run(attempt())
        if not room:
            # Poison that the model still counts as pending may have gone and made room.
            assert not published or self.wait(self.publisher.stats()).length <= HIGH_WATER
        if published:
            self.games.append(Game(uid))
            self.published = max(self.published, number + 1)

    @rule(consumer=st.sampled_from(CONSUMERS), limit=st.integers(1, 5))
    def consume(self, consumer: str, limit: int) -> None:
        deliveries = self.wait(self.streams[consumer].consume(consumer=consumer, limit=limit, block_s=0.0))
        expected = [game for game in self.games if game.may_come_to(consumer)]
        assert len(deliveries) <= limit
        assert bool(deliveries) == bool(expected) or self.poison_is_about()
        kinds = []
        for delivery in deliveries:
            game = self.identify(delivery, expected)
            kinds.append(game.state)
            expected.remove(game)
            game.state, game.consumer, game.held, game.idle, game.entry = "pending", consumer, True, False, delivery
            game.deliveries += 1
            assert delivery.payload == game.uid.encode()
            assert delivery.deliveries == game.deliveries
        assert kinds == sorted(kinds)  # "pending" before "waiting": what was left behind comes first
        new = [delivery.entry_id for delivery, state in zip(deliveries, kinds, strict=True) if state == "waiting"]
        assert new == sorted(new, key=lambda entry_id: [int(part) for part in entry_id.split("-")])

    def identify(self, delivery: Delivery, expected: list[Game]) -> Game:
        """Return the game delivered: by its entry if it was delivered before, else the oldest new one of that uid."""
        for game in expected:
            if game.entry is not None and game.entry.entry_id == delivery.entry_id:
                return game
        return next(game for game in expected if game.uid == delivery.uid and game.state == "waiting")

    def poison_is_about(self) -> bool:
        """Whether the limit of a call may have gone into burying what was delivered too often."""
        return any(game.state == "pending" and game.deliveries >= MAX_DELIVERIES for game in self.games)

    @precondition(lambda self: self.pending())
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        """By whoever it was delivered to last, be it alive, restarted or thought dead."""
        chosen = data.draw(st.lists(st.sampled_from(self.pending()), min_size=1, max_size=4, unique_by=id))
        entries = [game.entry.entry_id for game in chosen if game.entry is not None]
        gone = self.poisoned()
        self.wait(self.publisher.acknowledge(entries))
        for game in chosen:
            game.state = "dead" if game.entry is not None and game.entry.entry_id in gone else "acknowledged"

    @precondition(lambda self: self.pending())
    @rule(data=st.data())
    def bury(self, data: st.DataObject) -> None:
        game = data.draw(st.sampled_from(self.pending()))
        assert game.entry is not None
        self.wait(self.publisher.dead_letter(game.entry, reason="moves"))
        game.state = "dead"

    @precondition(lambda self: self.held())
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        """By the live process that holds it, which could not store it."""
        chosen = data.draw(st.lists(st.sampled_from(self.held()), min_size=1, max_size=4, unique_by=id))
        consumer = chosen[0].consumer
        games = [game for game in chosen if game.consumer == consumer]
        self.wait(self.streams[consumer].give_back([game.entry for game in games if game.entry is not None]))
        for game in games:
            game.held, game.idle = False, True
            game.deliveries -= 1

    def held(self) -> list[Game]:
        return [game for game in self.pending() if game.held and not game.idle]

    def poisoned(self) -> set[str]:
        """Return the entries of games that were delivered too often and that the stream may have buried by itself."""
        dead = [letter.uid for letter in self.wait(self.publisher.dead(limit=10_000)) if letter.reason == POISON]
        return {
            game.entry.entry_id
            for game in self.pending()
            if game.entry is not None and game.deliveries >= MAX_DELIVERIES and game.uid in dead
        }

    @rule(consumer=st.sampled_from(CONSUMERS))
    def crash(self, consumer: str) -> None:
        """The process dies with what it holds; another one starts under its name."""
        self.streams[consumer] = self.backend.open()
        for game in self.games:
            game.held = game.held and game.consumer != consumer

    @rule()
    def time_passes(self) -> None:
        self.wait(self.backend.age(IDLE_S + 1))
        for game in self.games:
            game.idle = game.idle or game.state == "pending"

    @invariant()
    def every_game_is_in_one_place(self) -> None:
        stats = self.wait(self.publisher.stats())
        gone = sum(game.state == "acknowledged" for game in self.games)
        assert stats.length + stats.dead + gone == len(self.games)
        assert stats.length <= HIGH_WATER
        assert stats.pending <= stats.length
        buried = sum(game.state == "dead" for game in self.games)
        may_be_buried = sum(game.state == "pending" and game.deliveries >= MAX_DELIVERIES for game in self.games)
        assert buried <= stats.dead <= buried + may_be_buried

    def teardown(self) -> None:
        """In the end everything that was not buried comes to somebody."""
        try:
            self.drain()
        finally:
            self.wait(self.backend.close())
            self.runner.close()

    def drain(self) -> None:
        last = self.backend.open()
        wanted = {game.uid for game in self.games if game.state == "waiting"}
        got = set()
        for _ in range(MAX_DELIVERIES + HIGH_WATER):
            self.wait(self.backend.age(IDLE_S + 1))
            deliveries = self.wait(last.consume(consumer="last", limit=100, block_s=0.0))
            self.wait(last.acknowledge([delivery.entry_id for delivery in deliveries]))
            got |= {delivery.uid for delivery in deliveries}
        assert wanted <= got
        assert self.wait(last.stats()).length == 0


@pytest.mark.slow
def test_no_game_is_lost_whatever_happens(new_backend: MakeBackend) -> None:
    class Machine(StreamMachine):
        make_backend = staticmethod(new_backend)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
        ),
    )
