"""Promises of ARCHITECTURE.md, checked from outside while a simulation runs and after its end.

The checks see what processes write and send, and the state of the disk. They recompute results and verdicts with arithmetic
of their own where the product's could be wrong in the same way.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim_loop import Process

from zerofleet.errors import ZerofleetError
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.strength.ratings import Sprt, Verdict, histogram

if TYPE_CHECKING:
    from sim_world import World

MODEL = "tic_tac_toe"
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
SETTLED = ("promoted", "rejected", "broken", "superseded", "unproven", "weaker")


class PromiseBroken(Exception):
    """A promise does not hold; the text begins with its name."""


def scores_of(moves: list[int]) -> tuple[float, float]:
    """Return the scores of a game of tic-tac-toe."""
    cells: list[int | None] = [None] * 9
    for ply, move in enumerate(moves):
        cells[move] = ply % 2
        if any(all(cells[cell] == ply % 2 for cell in line) for line in LINES):
            return (1.0, -1.0) if ply % 2 == 0 else (-1.0, 1.0)
    return (0.0, 0.0)


class Checks:
    """Everything that has been promised so far in one simulation."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.published: set[str] = set()
        """Games whose publication was confirmed to a worker."""
        self.acknowledged: set[str] = set()
        self.bad: set[str] = set()
        """Uids of records that must never be stored."""
        self.trained: Counter[str] = Counter()
        self.log_uids: set[str] = set()
        self.promotions = 0
        self.verdicts = 0
        self._loaded: set[tuple[int, str]] = set()
        self._epochs: list[int] = []
        self._present_epoch = 0
        self._announced = 0
        self._gatekeepers: dict[Process, Any] = {}
        self._holder: Process | None = None
        self._holders: set[str] = set()
        self._refused: set[Process] = set()
        self._excused: set[Process] = set()
        self._journal = b""
        self._matches: dict[str, dict[tuple[int, tuple[int, ...]], dict[str, Any]]] = {}
        self._verdicts: dict[int, str] = {}
        self._first: Process | None = None

    def fail(self, text: str) -> None:
        """Note that a promise is broken; the simulation ends."""
        self._world.fail(text)

    @property
    def store(self) -> DirectoryStore:
        return DirectoryStore(self._world.root / "models")

    # -- champions: P4, P5, P6 -------------------------------------------------------------------------------------

    def note_loaded(self, version: int, sha256: str) -> None:
        """An inference server has loaded and tested a version."""
        self._loaded.add((version, sha256))

    def note_gatekeeper(self, process: Process, parts: Any) -> None:
        """A gatekeeper has started."""
        self._gatekeepers[process] = parts

    def note_lock_refused(self, process: Process, path: Path) -> None:
        """A process was refused a lock."""
        if path.name == ".gatekeeper.lock":
            self._refused.add(process)

    def replaced(self, process: Process, path: Path) -> None:
        """A small file was replaced."""
        if path.name == "champion.json":
            self._champion_written(process, json.loads(path.read_bytes()))
        elif path.name == "gatekeeper_lease.json":
            self._lease_written(process, json.loads(path.read_bytes()))
        elif path.name == "journal.jsonl":
            self._reread(path.read_bytes())

    def _lease_written(self, process: Process, lease: dict[str, Any]) -> None:
        self._world.trace(f"lease epoch {lease['epoch']} by {process}")
        if process in self._refused:
            self.fail(f"P6: {process} was refused the lock of the lease and took the lease nevertheless")
        if lease["holder"] not in self._holders:
            self._holders.add(lease["holder"])
            self._excused = set(self._world.loop.stopped_in_a_job())
            self._holder = process
        elif process is not self._holder and process not in self._excused:
            self.fail(f"P6: {process} drew epoch {lease['epoch']} after {self._holder} had taken the lease")

    def _champion_written(self, process: Process, champion: dict[str, Any]) -> None:
        version, epoch, sha256, reason = (champion[key] for key in ("version", "epoch", "manifest_sha256", "reason"))
        self._world.trace(f"champion {version} epoch {epoch} by {process}: {reason}")
        self.promotions += 1
        if self._epochs and epoch <= max(self._epochs):
            self.fail(f"P6: {process} wrote champion {version} with epoch {epoch}, after epoch {max(self._epochs)}")
        parts = self._gatekeepers.get(process)
        if parts is not None and parts.pointer.epoch != self._present_epoch:
            self.fail(
                f"P6: {process} replaced the champion of epoch {self._present_epoch}, which it did not know; "
                f"it knew epoch {parts.pointer.epoch}"
            )
        if (version, sha256) not in self._loaded:
            self.fail(f"P4: champion {version} was never loaded by an inference server")
        try:
            self.store.verify(MODEL, version)
        except ZerofleetError as error:
            self.fail(f"P4: champion {version} is not sound: {error}")
        if " won, " in reason and not reason.startswith("rollback"):  # by the result of a match
            for name in self._matches:
                kind, played, _, against = name.split("/")
                if kind == "gate" and int(played) == version and int(against) != self._present_epoch:
                    self.fail(f"P5: version {version} beat the champion of epoch {against}, not of {self._present_epoch}")
        self._epochs.append(epoch)
        self._present_epoch = epoch

    async def watched(self, champions: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield what a watcher receives: champions that were written, in order of their epochs."""
        seen = 0
        async for champion in champions:
            if champion.epoch not in self._epochs or champion.epoch <= seen:
                self.fail(f"P4: a watcher received epoch {champion.epoch} after {seen}; written were {self._epochs[-5:]}")
            seen = champion.epoch
            self._announced = max(self._announced, seen)
            yield champion

    def after_power_loss(self) -> None:
        """Check that an announced champion is on the disk."""
        champion = self.store.champion(MODEL) if (self._world.root / "models" / MODEL).is_dir() else None
        self._present_epoch = champion.epoch if champion else 0
        if self._present_epoch < self._announced:
            self.fail(f"P4: a power loss took the champion of epoch {self._announced}, which workers play already")
        path = self._world.root / "gatekeeper" / "journal.jsonl"
        self._reread(path.read_bytes() if path.exists() else b"")
        self._excused = set()

    # -- results: P5 -----------------------------------------------------------------------------------------------

    def synced(self, process: Process, path: Path, content: bytes) -> None:
        """A file was synced; lines of the journal count from now on."""
        if path.name == "journal.jsonl":
            if not content.startswith(self._journal):
                self.fail(f"P5: {process} removed events of the journal")
            for line in content[len(self._journal) :].splitlines():
                self._event(json.loads(line))
            self._journal = content

    def _reread(self, content: bytes) -> None:
        """A restart has compacted the journal, or a power loss cut it: no verdict is lost."""
        content = content[: content.rfind(b"\n") + 1]
        before, self._matches, self._journal = dict(self._verdicts), {}, content
        found: dict[int, str] = {}
        for line in content.splitlines():
            event = json.loads(line)
            if event["event"] == "status":
                found[event["version"]] = event["status"]
            elif event["event"] in ("match", "game", "closed"):
                self._fold(event)
        for version, status in before.items():
            if found.get(version) not in SETTLED:
                self.fail(f"P5: the verdict on version {version}, {status}, was lost: it is {found.get(version)} now")

    def _fold(self, event: dict[str, Any]) -> None:
        name = event["match_id"]
        if event["event"] == "match":
            self._matches[name] = {}
        elif event["event"] == "closed":
            self._matches.pop(name, None)
        else:
            self._matches[name][event["group"], tuple(event["seating"])] = event

    def _event(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "submitted":
            self._world.trace(f"submitted {event['version']}")
            try:
                stored = self.store.manifest_sha256(MODEL, event["version"])
            except ZerofleetError:
                stored = ""
            if stored and stored != event["manifest_sha256"]:
                self.fail(f"P5: version {event['version']} was accepted with another manifest than the stored one")
        elif kind == "game":
            self._result(event)
        elif kind == "status":
            self._world.trace(f"status {event['version']} {event['status']}")
            self._status(event)
        if kind in ("match", "game", "closed"):
            self._fold(event)

    def _result(self, event: dict[str, Any]) -> None:
        name, place = event["match_id"], (event["group"], tuple(event["seating"]))
        if name not in self._matches:
            self.fail(f"P5: a result of match {name}, which is not open, was counted")
        elif place in self._matches[name]:
            self.fail(f"P5: the game {place} of match {name} was counted twice")
        if tuple(event["scores"]) != scores_of(event["moves"]):
            self.fail(f"P5: a game of match {name} counts with the scores {event['scores']}, the moves give others")

    def _status(self, event: dict[str, Any]) -> None:
        version, status, report = event["version"], event["status"], event["report"]
        if status in SETTLED:
            self._verdicts[version] = status
            self.verdicts += 1
        else:
            self._verdicts.pop(version, None)  # queued again, after a rollback or a restart of its match
        boards = [board for name, board in self._matches.items() if name.startswith(f"gate/{version}/") and board]
        if report is None or not boards or status not in ("promoted", "rejected") or "operator" in event["reason"]:
            return
        wanted, groups = self._decision(boards[0])
        if wanted is None or len(boards) > 1 or event["reason"].startswith(("version ", "promoted by hand")):
            return
        games = report["wins"] + report["draws"] + report["losses"]
        if (status == "promoted") != wanted or games != 2 * groups:
            self.fail(
                f"P5: version {version} was {status} on {games} games; its first {2 * groups} games decide: "
                f"{'promote' if wanted else 'reject'}"
            )

    def _decision(self, board: dict[tuple[int, tuple[int, ...]], dict[str, Any]]) -> tuple[bool | None, int]:
        """Return whether the candidate passes, None while that is open, and the pairs that decide it."""
        scores: list[float] = []
        order = list(dict.fromkeys(group for group, _ in sorted(board)))
        for number in order:
            pair = [board.get((number, seating)) for seating in ((0, 1), (1, 0))]
            if number != len(scores) or None in pair:
                break
            points = [(one["scores"][one["seating"].index(0)] + 1) / 2 for one in pair if one is not None]
            scores.append(sum(points) / 2)
        most = 8
        for count in range(1, len(scores) + 1):
            got = sum(scores[:count])
            if self._world.gate_mode == "share":
                if got >= 0.55 * most - 1e-9:
                    return True, count
                if got + most - count < 0.55 * most - 1e-9:
                    return False, count
            elif self._world.gate_mode == "sprt":
                test = Sprt(0.0, 200.0)
                verdict = test.verdict(float(test.evidence(*histogram(scores[:count]))))
                if verdict is not Verdict.CONTINUE:
                    return verdict is Verdict.STRONGER, count
                if count == most:
                    return False, count
        return None, 0

    # -- games: P1, P2, P3 -----------------------------------------------------------------------------------------

    def note_trainer(self, process: Process, training: Any) -> None:
        """A trainer has opened its log: it holds each acknowledged game once, and no bad one."""
        uids = list(training.replay.log.uids())
        self._world.trace(f"trainer {process} opens {len(uids)} games")
        self._check_log(uids)
        self._training = training

    def _check_log(self, uids: list[str]) -> None:
        if twice := [uid for uid, count in Counter(uids).items() if count > 1]:
            self.fail(f"P1: {len(twice)} games are in the log twice, such as {twice[0]}")
        self.log_uids = set(uids)
        if lost := sorted(self.acknowledged - self.log_uids):
            self.fail(f"P2: {len(lost)} acknowledged games are not in the log, such as {lost[0]}")
        if stored := sorted(self.bad & self.log_uids):
            self.fail(f"P3: a bad record is in the log: {stored[0]}")

    def at_end(self, dead: set[str]) -> None:
        """Nothing is on its way any more: each published game was stored, trained on, and counted once."""
        training = self._training
        self._check_log(list(training.replay.log.uids()))
        if lost := sorted(self.published - self.log_uids - dead):
            self.fail(f"P1: {len(lost)} of {len(self.published)} published games are nowhere, such as {lost[0]}")
        if untrained := sorted(self.log_uids - set(self.trained)):
            self.fail(f"P1: {len(untrained)} stored games were never trained on, such as {untrained[0]}")
        plies = sum(len(training.replay.read(game.payload)) for game in training.replay.log.scan())
        state = training.learner.state
        if not plies == training.replay.window.total == state.samples_trained:
            self.fail(
                f"P1: the log has {plies} samples, the window counted {training.replay.window.total}, "
                f"the learner {state.samples_trained}"
            )
        if good := sorted(uid for uid in dead - self.bad if uid in self.published and uid not in self.log_uids):
            self.fail(f"P1: {len(good)} good games are dead letters, such as {good[0]}")
        history = [champion.epoch for champion in self.store.history(MODEL, whole=True)]
        if history != sorted(set(history)) or history[-1:] != [self._present_epoch]:
            self.fail(f"P6: the epochs of the champions are {history}, the present one is {self._present_epoch}")
        for champion in self.store.history(MODEL):
            if champion.version not in self.store.versions(MODEL):
                self.fail(f"P4: champion {champion.version} was deleted")
