"""Makes the faults of a plan and undoes them, on the containers of a cluster."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import docker
import soak_machine as machine
from docker.models.containers import Container
from soak_cluster import SoakCluster, compose
from soak_disks import Disks
from soak_faults import (
    CLOCK_JUMP_S,
    DAMAGE_BY_NAME,
    DISK_OF,
    KINDS,
    LOSS,
    SLOW_BYTES_PER_S,
    Damage,
    Harm,
    Planned,
    choose,
    flip,
)

START_S = 90.0  # a service with a damaged file has so long to become healthy
REFUSALS = 3  # unless it ends so often, and is started by the engine each time


class CannotHarm(Exception):
    """A fault that could not be made now; the report lists it with this reason."""


def missing(disks: Disks, clock: str) -> Mapping[str, str]:
    """Return why this machine cannot make which kinds of faults; `clock`: why no clock can be shifted, or empty."""
    reasons = {
        "full_disk": disks.missing,
        "slow_disk": disks.missing or machine.cannot_throttle(),
        "clock": clock,
        "loss": machine.cannot_change_packets(machine.loss_commands(LOSS[0], add=True)),
        "reorder": machine.cannot_change_packets(machine.reorder_commands(add=True, interface="lo")),
    }
    return {kind.name: reasons[kind.name] for kind in KINDS if reasons.get(kind.name)}


class Harms:
    """Faults of one cluster."""

    def __init__(self, cluster: SoakCluster, disks: Disks, now_s: Callable[[], float]) -> None:
        self._cluster = cluster
        self._disks = disks
        self._now_s = now_s
        self._undo: Callable[[], object] = _nothing

    def do(self, planned: Planned) -> Harm:
        """Make a fault; `undo` ends it. Raises `CannotHarm`, `docker.errors.APIError`."""
        harm = Harm(planned.kind, planned.service, self._now_s())
        try:
            getattr(self, f"_{planned.kind}")(planned, harm)
        except (OSError, RuntimeError) as error:
            raise CannotHarm(str(error)) from error
        if planned.lasts_s == 0:
            harm.until_s = self._now_s()
        return harm

    def undo(self, harm: Harm) -> None:
        """End a fault; one whose container was replaced meanwhile has ended with it."""
        undo, self._undo = self._undo, _nothing
        try:
            undo()
        except (docker.errors.APIError, RuntimeError, OSError) as error:
            harm.detail["undone"] = str(error)
        harm.until_s = min(harm.until_s, self._now_s())

    def _running(self, planned: Planned) -> Container:
        found = [each for each in self._cluster.containers(planned.service) if each.status == "running"]
        if not found:
            raise CannotHarm(f"no container of {planned.service} is running")
        return found[choose(len(found), planned.rolls[0])]

    def _kill(self, planned: Planned, harm: Harm) -> None:
        container = self._running(planned)
        harm.detail["container"] = container.name
        container.exec_run(compose.KILL_ALL)

    def _pause(self, planned: Planned, harm: Harm) -> None:
        container = self._running(planned)
        harm.detail["container"] = container.name
        container.pause()
        self._undo = container.unpause

    def _full_disk(self, planned: Planned, harm: Harm) -> None:
        disk = harm.detail["disk"] = DISK_OF[planned.service]
        self._undo = lambda: self._disks.release(disk)
        self._disks.fill(disk)

    def _slow_disk(self, planned: Planned, harm: Harm) -> None:
        pid = _pid(self._running(planned))
        device = self._disks.device(DISK_OF[planned.service])
        harm.detail["device"] = device
        machine.throttle(pid, device, SLOW_BYTES_PER_S)
        self._undo = lambda: machine.throttle(pid, device, 0)

    def _clock(self, planned: Planned, harm: Harm) -> None:
        shift_s = CLOCK_JUMP_S if planned.rolls[1] < 0.5 else -CLOCK_JUMP_S
        harm.detail["shift_s"] = f"{shift_s:+d}"
        file = self._cluster.clock(planned.service)
        machine.set_clock(file, shift_s)
        self._undo = lambda: machine.set_clock(file, 0)

    def _loss(self, planned: Planned, harm: Harm) -> None:
        share = LOSS[0] + planned.rolls[1] * (LOSS[1] - LOSS[0])
        harm.detail["share"] = f"{share:.2f}"
        pid = _pid(self._running(planned))
        self._undo = lambda: machine.in_network(pid, machine.loss_commands(share, add=False))
        machine.in_network(pid, machine.loss_commands(share, add=True))

    def _reorder(self, planned: Planned, harm: Harm) -> None:
        pid = _pid(self._running(planned))
        self._undo = lambda: machine.in_network(pid, machine.reorder_commands(add=False))
        machine.in_network(pid, machine.reorder_commands(add=True))

    def _byte(self, planned: Planned, harm: Harm) -> None:
        """Damage a file of a stopped service and start it; where it does not start, restore the file and start it again."""
        damage = DAMAGE_BY_NAME[planned.file]
        harm.detail["file"] = damage.name
        bystanders = [] if damage.service != "redis" else self._frozen(("selfplay_worker", "trainer"))
        self._stop(damage.service)
        try:
            harm.detail["outcome"] = self._damaged(damage, planned, harm)
        finally:
            self._start(damage.service)
            for container in bystanders:
                container.unpause()

    def _damaged(self, damage: Damage, planned: Planned, harm: Harm) -> str:
        path = chosen_file(self._disks.path(damage.disk), damage, planned.rolls[0])
        if path is None:
            return "no such file yet"
        sound = path.read_bytes()
        at = choose(len(sound), planned.rolls[1])
        harm.detail |= {"path": path.name, "byte": str(at)}
        kept = path.with_name(f"{path.name}.sound")
        shutil.copy2(path, kept)
        try:
            with path.open("r+b", buffering=0) as file:
                file.seek(at)
                file.write(flip(sound, at, planned.rolls[2])[at : at + 1])
            self._start(damage.service)
            if self._starts(damage.service) and not (damage.service == "redis" and path.stat().st_size < len(sound)):
                return "started"
            self._stop(damage.service)
            with path.open("r+b", buffering=0) as file:
                file.write(sound)
                file.truncate(len(sound))
            return "refused"
        finally:
            kept.unlink()

    def _stop(self, service: str) -> None:
        for container in self._cluster.containers(service):
            container.stop(timeout=20)

    def _start(self, service: str) -> None:
        for container in self._cluster.containers(service):
            container.start()

    def _frozen(self, services: Collection[str]) -> list[Container]:
        """Freeze the clients of Redis, so that nothing is published or stored while its file may be cut off."""
        found = [each for name in services for each in self._cluster.containers(name) if each.status == "running"]
        for container in found:
            container.pause()
        return found

    def _starts(self, service: str) -> bool:
        """Wait until a service is healthy; return whether it became so, and did not end again and again instead."""
        ends_s = self._now_s() + START_S
        ended_before = self._times_ended(service)
        while self._now_s() < ends_s and self._times_ended(service) < ended_before + REFUSALS:
            states = [each.attrs["State"] for each in self._cluster.containers(service)]
            if states and all(state.get("Health", {}).get("Status") == "healthy" for state in states):
                return True
            threading.Event().wait(1.0)
        return False

    def _times_ended(self, service: str) -> int:
        return sum(each.attrs.get("RestartCount", 0) for each in self._cluster.containers(service))


def chosen_file(root: Path, damage: Damage, roll: float) -> Path | None:
    """Return the file that a roll chooses among those of a kind that are not empty; None where there is none."""
    found = sorted(path for path in root.glob(damage.pattern) if path.is_file() and path.stat().st_size)
    return found[choose(len(found), roll)] if found else None


def _pid(container: Container) -> int:
    return int(container.attrs["State"]["Pid"])


def _nothing() -> None:
    """Undo nothing."""
