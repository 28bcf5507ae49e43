"""Which warnings and errors a soak explains, and by what: a line is explained by a fault of a service shortly before it.

A line that fits no entry, or comes when none of the entry's services was harmed, is unexplained.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from soak_faults import Harm

ECHO_S = 100.0  # how long after a fault its consequences may be logged: restart, imports, reconnection, a load's time-out
DISKS = ("trainer", "gatekeeper")
LOUD = ("warning", "error", "critical")
ITSELF = ("itself",)
NETWORK = ("pause", "loss", "reorder")
_REDIS_LINE = re.compile(r"^\d+:[A-Z] .*? (?P<level>[.*#-]) (?P<text>.*)$")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a container's log."""

    service: str
    at_s: float  # since the soak began
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Lines of `service` that `pattern` finds come from a fault of one of `causes` (none: they always may)."""

    service: str
    pattern: str
    causes: tuple[str, ...]
    why: str
    kinds: tuple[str, ...] = ()  # of the fault; none: any

    def fits(self, line: Line, harms: Iterable[Harm]) -> bool:
        """Return whether it explains that line."""
        if self.service not in ("*", line.service) or not re.search(self.pattern, line.text):
            return False
        return not self.causes or any(
            harm.service in (self.causes if self.causes != ITSELF else (line.service,))
            and (not self.kinds or harm.kind in self.kinds)
            and harm.at_s <= line.at_s <= harm.until_s + ECHO_S
            for harm in harms
        )


EXPLANATIONS = (
    Explanation("*", r'"event": "stream\.away"', ("redis",), "Redis was killed; the client tries again until it is back"),
    Explanation(
        "selfplay_worker", r'"event": "inference\.away"', ("inference_server",), "the worker asks again until it is back"
    ),
    Explanation(
        "selfplay_worker", r'"event": "version\.gone"', ("inference_server", "gatekeeper"), "a champion was replaced meanwhile"
    ),
    Explanation("trainer", r'"event": "gatekeeper\.away"', ("gatekeeper",), "the candidate is offered again"),
    Explanation(
        "*",
        r'"event": "(stream|gatekeeper|inference)\.away"|"event": "(version\.gone|replica\.passed_over|gatekeeper\.failed)"',
        ITSELF,
        "its own packets or its own time were lost; it tries again",
        (*NETWORK, "clock"),
    ),
    Explanation(
        "trainer",
        r'"event": "(intake\.disk_refuses|checkpoint\.not_written)"',
        ("trainer",),
        "its disk is full",
        ("full_disk",),
    ),
    Explanation(
        "trainer", r'"event": "candidate\.not_(published|submitted)"', DISKS, "the disk of the store is full", ("full_disk",)
    ),
    Explanation("trainer", r'"event": "history\.(disk_full|sink_failed)"', ("trainer",), "its disk is full", ("full_disk",)),
    Explanation(
        "gatekeeper",
        r'"event": "(decision\.delayed|promotion\.not_noted|gate\.not_tidied|models\.not_pruned)"',
        DISKS,
        "its disk is full",
        ("full_disk",),
    ),
    Explanation(
        "redis",
        r"# .*(No space left on device|MISCONF|AOF)",
        ("redis",),
        "its disk is full or slow",
        ("full_disk", "slow_disk"),
    ),
    Explanation(
        "*", r"^(?!.*Redis at ).*(No space left on device|Errno 28)", ITSELF, "it stops where it cannot write", ("full_disk",)
    ),
    Explanation(
        "trainer",
        r'"event": "game_log\.(damaged_game|damaged_header|torn_end|uids_not_stored)"|damaged|is not a game log|of version',
        ("trainer",),
        "a byte of its files was damaged",
        ("byte",),
    ),
    Explanation(
        "gatekeeper",
        r'"event": "(store\.history_damaged|journal\.tail_dropped|manifest\.unreadable)"|restore|\.last_version'
        r"|champion\.json is not JSON",
        ("gatekeeper",),
        "a byte of its files was damaged",
        ("byte",),
    ),
    Explanation(
        "*",
        r'"event": "(model\.((champion_)?refused|champion_unknown)|store\.history_damaged|decision\.delayed|\w+\.not_loaded'
        r'|serving\.failed)"',
        ("inference_server", "gatekeeper"),
        "a byte of a model was damaged",
        ("byte",),
    ),
    Explanation(
        "redis",
        r"# (Bad file format|Unknown command|!!!|Unrecoverable)",
        ("redis",),
        "a byte of its file was damaged",
        ("byte",),
    ),
    Explanation("trainer", r'"event": "intake\.not_acknowledged"', ("redis",), "stored; acknowledged when Redis is back"),
    Explanation(
        "trainer", r'"event": "game_log\.torn_end"', ("trainer",), "killed while it wrote; the torn game is delivered again"
    ),
    Explanation("gatekeeper", r'"event": "decision\.delayed"', ("inference_server",), "a match waits for the server"),
    Explanation("gatekeeper", r'"event": "promotion\.not_loaded"', ("inference_server",), "loaded once the server is back"),
    Explanation("gatekeeper", r'"event": "serving\.failed"', ("inference_server",), "loaded once the server is back"),
    Explanation(
        "gatekeeper", r'"event": "journal\.tail_dropped"', ("gatekeeper",), "killed while it wrote a result; played again"
    ),
    Explanation("redis", r"# (oO0OoO0OoO0Oo|Redis version|Configuration loaded|Server initialized)", (), "Redis starts"),
    Explanation(
        "redis", r"# WARNING Memory overcommit must be enabled", (), "a setting of the host, for snapshots, which are off"
    ),
    Explanation(
        "redis", r"# !!! Warning: short read while loading the AOF|# AOF loaded anyway", ("redis",), "killed while it wrote"
    ),
)


def loud(line: Line) -> bool:
    """Return whether a line is a warning or worse; lines of no known form count, since something unforeseen wrote them."""
    text = line.text.strip()
    if not text:
        return False
    if line.service == "redis":
        found = _REDIS_LINE.match(text)
        return found is None or found["level"] == "#"
    try:
        return json.loads(text).get("level") in LOUD
    except (ValueError, AttributeError):
        return True


def explain(line: Line, harms: Sequence[Harm], known: Sequence[Explanation] = EXPLANATIONS) -> Explanation | None:
    """Return what explains a line, None when nothing does."""
    return next((explanation for explanation in known if explanation.fits(line, harms)), None)


def event_of(line: Line) -> str:
    """Return what a line is about, in few words: equal for lines that say the same."""
    try:
        return str(json.loads(line.text)["event"])
    except (ValueError, KeyError, TypeError):
        found = _REDIS_LINE.match(line.text.strip())
        return re.sub(r"\d+", "N", found["text"] if found else line.text.strip())[:80]
