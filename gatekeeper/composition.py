"""Composition of a gatekeeper without its port: lease, ledger, pointer, arbiter, watch, ladder and pruner of one model.

The process adds the port (`service`). A test or a simulation uses the same parts with an evaluator and a control of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from games.core import Game
from gatekeeper.arbiter import Arbiter
from gatekeeper.crew import Crew
from gatekeeper.disk import Disk
from gatekeeper.evaluation import WatchedEvaluator
from gatekeeper.ladder import Ladder, chosen_rungs
from gatekeeper.lease import Lease
from gatekeeper.ledger import Ledger
from gatekeeper.pacing import Budget, Counters, EvaluationBudget, TimeBudget
from gatekeeper.pointer import ChampionPointer
from gatekeeper.promoter import Promoter
from gatekeeper.pruning import Pruner
from gatekeeper.referee import Referee
from gatekeeper.served_versions import Control, Serving
from gatekeeper.settings import GatekeeperSettings
from gatekeeper.verdicts import Verdicts
from gatekeeper.watch import Watch
from zerofleet.agents import make_agent
from zerofleet.contracts.naming import model_name
from zerofleet.errors import ConfigurationError
from zerofleet.evaluators.base import Evaluator
from zerofleet.presets import GateSettings
from zerofleet.search.daemon_thread import in_daemon_thread
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.strength.matches import draw_openings, warm_up_rules
from zerofleet.telemetry import metrics

__all__ = ["Gatekeeper", "compose"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gatekeeper:
    """Parts of a gatekeeper that holds the lease; `run` starts its decisions."""

    pointer: ChampionPointer
    arbiter: Arbiter
    watch: Watch
    ladder: Ladder
    ledger: Ledger
    serving: Serving
    pruner: Pruner
    evaluator: Evaluator
    """Evaluator of the ladder's games."""

    async def run(self, *, by_hand_only: bool = False) -> None:
        """Decide on candidates, play the ladder and prune the store without end; `by_hand_only`: only carry out commands.

        Raises `StaleEpoch` when another gatekeeper has taken over.
        Cancellation: a match in progress resumes at the next start.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self.pointer.until_lost())
            group.create_task(self.ledger.until_lost())
            group.create_task(self.serving.run())
            group.create_task(self._follow())
            if not by_hand_only:
                group.create_task(self.arbiter.run())
                group.create_task(self.watch.run())
                group.create_task(self.pruner.run())
                group.create_task(self.ladder.run(self.evaluator))

    async def _follow(self) -> None:
        """Update metrics and inference server at every change of the champion."""
        async for champion in self.pointer.watch():
            self.serving.champion_changed()
            metrics.CHAMPION_VERSION.set(champion.version)
            metrics.MODEL_INFO.clear()
            metrics.MODEL_INFO.labels(version=str(champion.version), sha256=champion.manifest_sha256).set(1)
            metrics.MODEL_AGE.set_function(partial(_age_s, champion.promoted_at_ms))


@asynccontextmanager
async def compose(settings: GatekeeperSettings, *, evaluator: Evaluator, control: Control) -> AsyncIterator[Gatekeeper]:
    """Take the lease and yield the parts, with the results of the journal; on exit, release the lease.

    Raises `Unavailable` while another gatekeeper holds the lease, `RunDirectoryError` for an unreadable journal,
    `ConfigurationError` when no opening of the gate leaves a game to play.
    """
    game = settings.build_game()
    model, store = model_name(game), settings.open_store()
    # Before the journal is read, as another gatekeeper may change it meanwhile.
    await in_daemon_thread(partial(warm_up_rules, game))
    await in_daemon_thread(partial(_require_openings, game, settings.gate))
    rungs = await asyncio.to_thread(chosen_rungs, game, settings.gate, make_agent)
    async with AsyncExitStack() as stack:
        disk = stack.enter_context(Disk())
        lease = stack.enter_context(await disk.run(partial(Lease.acquire, settings.lease_directory(model))))
        journal = EventJournal(settings.state_dir / JOURNAL_FILE, model=model, require_held=lease.require_held)
        ledger = Ledger(journal, model=model, game=game, disk=disk)
        await disk.run(ledger.load)
        pointer = await disk.run(partial(ChampionPointer, store, model, lease, disk))
        watched, rating = WatchedEvaluator(evaluator, "match"), WatchedEvaluator(evaluator, "ladder")
        serving = Serving(
            control,
            model,
            pointer,
            recheck_s=settings.recheck_s,
            pinned=settings.models.pinned,
            stored=partial(store.versions, model),
        )
        budget = _budget(settings, partial(control.evaluations, model))
        referee = Referee(game, settings, ledger=ledger, pointer=pointer, make_agent=make_agent, budget=budget)
        crew = Crew(
            ledger=ledger,
            pointer=pointer,
            serving=serving,
            referee=referee,
            promoter=Promoter(game, store, model, pointer=pointer, serving=serving, disk=disk),
            verdicts=Verdicts(ledger, referee),
            evaluator=watched,
        )
        arbiter = Arbiter(crew, mode=settings.gate.mode)
        ladder = Ladder(
            *(game, settings),
            ledger=ledger,
            pointer=pointer,
            serving=serving,
            idle=arbiter.idle,
            make_agent=make_agent,
            rungs=rungs,
        )
        yield Gatekeeper(
            pointer=pointer,
            arbiter=arbiter,
            watch=Watch(crew),
            ladder=ladder,
            ledger=ledger,
            serving=serving,
            pruner=Pruner(store, settings.models, ledger=ledger, pointer=pointer, serving=serving, disk=disk),
            evaluator=rating,
        )


def _require_openings(game: Game, gate: GateSettings) -> None:
    """Raise `ConfigurationError` when random play ends the game within the opening, and the gate or the ladder plays."""
    plays = gate.mode != "off" or gate.ladder_games
    if plays and next(draw_openings(game, plies=gate.opening_plies, seed=0), None) is None:
        raise ConfigurationError(
            f"gate.opening_plies={gate.opening_plies}: of many random openings of {game.spec().name} none leaves the game "
            "unfinished, so no match could be played; set gate.opening_plies to fewer plies"
        )


def _budget(settings: GatekeeperSettings, counters: Counters) -> Budget:
    """Return the budget of the measurements of mode `watch`."""
    if settings.gate.watch_of == "time":
        return TimeBudget(settings.gate.watch_share)
    return EvaluationBudget(counters, settings.gate.watch_share)


def _age_s(promoted_at_ms: int) -> float:
    return max(0.0, time.time() - promoted_at_ms / 1000)
