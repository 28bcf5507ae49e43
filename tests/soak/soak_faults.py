"""Faults of a soak as data: their kinds, and the plan of a slice, which follows from the seed and the slice's number alone."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

EVERY = ("redis", "inference_server", "gatekeeper", "trainer", "selfplay_worker")
CLOCK_JUMP_S = 3600
DISK_OF = {"redis": "stream", "gatekeeper": "models", "trainer": "run"}
SLOW_BYTES_PER_S = 256 << 10
LOSS = (0.05, 0.30)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: what it does to which services, and for how long."""

    name: str
    does: str
    undoes: str
    services: tuple[str, ...]
    lasts_s: tuple[float, float] = (0.0, 0.0)


KINDS = (
    Kind("kill", "SIGKILL to every process of a container", "the engine starts it again", EVERY),
    Kind("pause", "the container is frozen, as by SIGSTOP", "it is thawed", EVERY, (5.0, 60.0)),
    Kind("full_disk", "a file fills the disk of a service", "it is removed", ("redis", "gatekeeper", "trainer"), (10.0, 40.0)),
    Kind("slow_disk", "256 KiB/s to the disk of a service", "no limit", ("redis", "gatekeeper", "trainer"), (15.0, 60.0)),
    Kind("clock", "the wall clock of a service jumps an hour ahead or back", "it jumps back", EVERY, (20.0, 60.0)),
    Kind("loss", "a container loses 5 to 30 % of its packets", "it loses none", EVERY, (15.0, 60.0)),
    Kind("reorder", "a quarter of a container's packets overtake others", "none do", EVERY, (15.0, 60.0)),
    Kind("byte", "one bit of a file changes while its service is down", "restored where the file is refused", ()),
)
BY_NAME: Mapping[str, Kind] = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Damage:
    """A kind of file in which a byte is damaged, where it lies, and what is documented to happen."""

    name: str
    service: str  # stopped meanwhile
    disk: str  # of `soak_disks.DISKS`
    pattern: str  # below the disk
    refuses: bool  # the service may refuse to start; otherwise it has to start
    costs_games: int  # at most


DAMAGES = (
    Damage("games", "trainer", "run", "replay/*.games", refuses=True, costs_games=1),
    Damage("index", "trainer", "run", "replay/*.index", refuses=False, costs_games=0),
    Damage("sorted uids", "trainer", "run", "replay/*.uids", refuses=False, costs_games=0),
    Damage("checkpoint's counts", "trainer", "run", "replay/checkpoints/*/checkpoint.json", refuses=True, costs_games=0),
    Damage("checkpoint's tensors", "trainer", "run", "replay/checkpoints/*/state.safetensors", refuses=True, costs_games=0),
    Damage("header of the run", "trainer", "run", "run.json", refuses=True, costs_games=0),
    Damage("journal", "gatekeeper", "run", "gatekeeper/journal.jsonl", refuses=True, costs_games=0),
    Damage("champion pointer", "gatekeeper", "models", "*/champion.json", refuses=True, costs_games=0),
    Damage("history of champions", "gatekeeper", "models", "*/champion_history.jsonl", refuses=False, costs_games=0),
    Damage("last version", "gatekeeper", "models", "*/.last_version", refuses=True, costs_games=0),
    Damage("manifest", "inference_server", "models", "*/*/manifest.json", refuses=True, costs_games=0),
    Damage("model", "inference_server", "models", "*/*/model.pt", refuses=True, costs_games=0),
    Damage("append-only file", "redis", "stream", "appendonlydir/*.incr.aof", refuses=True, costs_games=1),
)
DAMAGE_BY_NAME: Mapping[str, Damage] = {damage.name: damage for damage in DAMAGES}


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault to come. The rolls, in [0, 1), choose what is known only then: the container, the file, the byte."""

    kind: str
    service: str
    at_s: float  # since the slice began
    lasts_s: float
    rolls: tuple[float, ...]
    file: str = ""  # name of a `Damage`


@dataclass(slots=True)
class Harm:
    """A fault that was made. Its consequences may be logged from `at_s` until some time after `until_s`."""

    kind: str
    service: str
    at_s: float
    until_s: float = math.inf
    detail: dict[str, str] = field(default_factory=dict)
    recovery_s: float | None = None  # from `until_s` until every service was healthy


def chosen_kinds(named: str, absent: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the kinds of faults to make, and why the others are not made.

    Args:
        named: Kinds with commas between; empty: all that this machine makes.
        absent: Why this machine cannot make which kinds.

    Raises `ValueError` for an unknown kind, or a named one that cannot be made.
    """
    wanted = named.split(",") if named else list(BY_NAME)
    if not set(wanted) <= set(BY_NAME):
        raise ValueError(f"--faults {named}: want some of {','.join(BY_NAME)}")
    if named and (impossible := {kind: why for kind, why in absent.items() if kind in wanted}):
        raise ValueError(f"--faults {named}: this machine cannot make {impossible}")
    not_made = {kind: absent.get(kind, "left out by --faults") for kind in BY_NAME if kind in absent or kind not in wanted}
    return [kind for kind in wanted if kind not in not_made], not_made


def choose(count: int, roll: float) -> int:
    """Return the place in a list of `count` that a roll chooses."""
    return min(count - 1, int(roll * count))


def plan(seed: int, number: int, seconds: float, every_s: float, kinds: Collection[str]) -> list[Planned]:
    """Return the faults of a slice, one each `every_s`, each undone before the next; `kinds`: those that this machine makes.

    Kinds come in rounds, each of which has every kind once in a random order, and files likewise, so that a short slice
    has as many kinds as it can.
    """
    rng = random.Random(f"{seed}/{number}")
    rounds = _Rounds(rng, [kind.name for kind in KINDS if kind.name in kinds])
    files = _Rounds(rng, [damage.name for damage in DAMAGES])
    found = []
    for place in range(1, math.ceil(seconds / every_s)):
        kind = BY_NAME[rounds.draw()]
        own = random.Random(f"{seed}/{number}/{place}/{kind.name}")
        file = files.draw() if kind.name == "byte" else ""
        service = DAMAGE_BY_NAME[file].service if file else own.choice(kind.services)
        lasts_s = min(own.uniform(*kind.lasts_s), 0.9 * every_s, seconds - place * every_s)
        rolls = tuple(own.random() for _ in range(4))
        found.append(Planned(kind.name, service, place * every_s, lasts_s, rolls, file))
    return found


class _Rounds:
    """Draws each of some names once before any comes again."""

    def __init__(self, rng: random.Random, names: Sequence[str]) -> None:
        self._rng = rng
        self._names = list(names)
        self._left: list[str] = []

    def draw(self) -> str:
        if not self._left:
            self._left = list(self._names)
            self._rng.shuffle(self._left)
        return self._left.pop()


def flip(data: bytes, at: int, roll: float) -> bytes:
    """Return `data` with one bit of the byte at `at` changed; the same call changes it back."""
    return data[:at] + bytes([data[at] ^ (1 << choose(8, roll))]) + data[at + 1 :]


def games_allowed_lost(harms: Sequence[Harm]) -> int:
    """Return how many games the damaged bytes may have cost: each the record that it lies in."""
    started = [harm.detail["file"] for harm in harms if harm.kind == "byte" and harm.detail.get("outcome") == "started"]
    return sum(DAMAGE_BY_NAME[name].costs_games for name in started)
