"""A campaign: inputs of one target after another, and what is required of every outcome.

A fault is an exception outside of the trees of errors, a status INTERNAL or UNKNOWN, a traceback in the log, an input that
takes more than `LONGEST_S` of processor time or `PATIENCE_S` of wall-clock time, a first seed that is no longer accepted, or
memory that grows by more than `GROWTH_BYTES` after the first tenth of the inputs.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import hashlib
import logging
import os
import random
import re
import signal
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import structlog
from fuzz_targets import _VARYING, ACCEPTED, Fault, Outcome, Target

__all__ = ["GROWTH_BYTES", "LONGEST_S", "PATIENCE_S", "Limit", "Logged", "Report", "campaign", "replay", "watched_logs"]

LONGEST_S = 20.0
"""Processor time of one input, a hundred times that of the slowest valid one."""
PATIENCE_S = 120.0
"""Wall-clock time of one input, on a machine with other work."""
GROWTH_BYTES = 64 << 20
"""Resident memory that a target may gain after the first tenth of its inputs."""
CHECK_EVERY = 2_000
"""Inputs between two looks at the first seed."""
MAX_FAULTS = 20
"""Different faults of a target, after which it ends."""
_CODE = re.compile(r'/([^/"]+)", line (\d+)')
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Limit:
    """End of a target: whichever comes first."""

    messages: int = 10**12
    seconds: float = float("inf")


@dataclass
class Report:
    """Counts of one target."""

    name: str
    seed: int
    messages: int = 0
    seconds: float = 0.0
    processor_s: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    growth_bytes: int = 0
    faults: dict[str, bytes | None] = field(default_factory=dict)
    """Input of each different fault, by its description; None for memory, which no single input explains."""

    @property
    def refused(self) -> int:
        """Number of refused inputs."""
        return self.messages - self.outcomes[ACCEPTED] - self.outcomes["fault"]


@dataclass
class Logged:
    """Tracebacks that the process logged."""

    traces: list[str] = field(default_factory=list)

    def take(self) -> list[str]:
        """Return those since the last call."""
        found, self.traces = self.traces, []
        return found


@contextmanager
def watched_logs() -> Iterator[Logged]:
    """Collect tracebacks of structlog, logging and the event loop's callbacks in place of printing anything."""
    logged, kept = Logged(), structlog.get_config()

    def drop(logger: Any, method: str, event: dict[str, Any]) -> NoReturn:
        if error := event.get("exc_info"):
            shown = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else traceback.format_exc()
            logged.traces.append(f"{event.get('event')}\n{shown}")
        raise structlog.DropEvent

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info or record.levelno >= logging.ERROR:
                error = record.exc_info[1] if record.exc_info else None
                shown = "".join(traceback.format_exception(error)) if error else ""
                logged.traces.append(f"{record.name}: {record.getMessage()}\n{shown}")

    handler, root = Handler(), logging.getLogger()
    others, root.handlers = root.handlers, [handler]
    structlog.configure(processors=[drop], cache_logger_on_first_use=False)
    try:
        yield logged
    finally:
        root.handlers = others
        structlog.configure(**kept)


async def campaign(target: Target, *, seed: int, limit: Limit, logged: Logged, corpus: Path | None = None) -> Report:
    """Try inputs of a target until the limit; inputs with new outcomes are kept in `corpus`, those of faults below it.

    Cancellation: the campaign ends; kept inputs stay.
    """
    report = Report(target.name, seed)
    began_s, processor_s = time.monotonic(), time.process_time()
    await _require_valid(target, report, logged)
    if corpus is not None:
        await _repeat_kept(target, report, logged, _files(corpus / target.folder))
    before_bytes = await _attempts(target, report, limit, logged, corpus)
    await _require_valid(target, report, logged)
    report.seconds, report.processor_s = time.monotonic() - began_s, time.process_time() - processor_s
    report.growth_bytes = _resident_bytes() - before_bytes
    if report.growth_bytes > GROWTH_BYTES:
        report.faults[f"resident memory grew by {report.growth_bytes >> 20} MiB"] = None
    if corpus is not None:
        _store_faults(report, target, corpus / "faults")
    return report


async def _attempts(target: Target, report: Report, limit: Limit, logged: Logged, corpus: Path | None) -> int:
    """Try inputs until the limit; return the memory after the first tenth of them, in bytes."""
    rng, began_s = random.Random(f"{report.seed} {target.name}"), time.monotonic()
    tenth_s, tenth = began_s + limit.seconds / 10, limit.messages // 10
    before_bytes, settled, looked = _resident_bytes(), False, 0
    while report.messages < limit.messages and time.monotonic() - began_s < limit.seconds and len(report.faults) < MAX_FAULTS:
        batch = [target.draw(rng) for _ in range(min(target.in_flight, limit.messages - report.messages))]
        if target.in_flight == 1:
            outcomes = [await attempt(target, batch[0], logged, report)]
        else:
            outcomes = await asyncio.gather(*(attempt(target, data, logged, report) for data in batch))
        for data, outcome in zip(batch, outcomes, strict=True):
            report.messages += 1
            report.outcomes[outcome.label] += 1
            if outcome.label != "fault" and target.learn(data, outcome) and corpus is not None:
                _keep(corpus / target.folder, data)
        if not settled and (time.monotonic() > tenth_s or report.messages >= tenth):
            settled, before_bytes = True, _resident_bytes()
        if report.messages - looked >= CHECK_EVERY:
            looked = report.messages
            await _require_valid(target, report, logged)
            await asyncio.sleep(0)
    return before_bytes


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.input"))


async def _repeat_kept(target: Target, report: Report, logged: Logged, kept: Sequence[Path]) -> None:
    """Repeat the inputs that earlier runs kept, and remove those whose outcome another one has too; none is counted."""
    for path in kept:
        data = path.read_bytes()
        outcome = await attempt(target, data, logged, report)
        if outcome.label != "fault" and not target.learn(data, outcome):
            path.unlink()


def _store_faults(report: Report, target: Target, folder: Path) -> None:
    for text, data in report.faults.items():
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{target.folder}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.txt"
        path.write_text(text)
        if data is not None:
            path.with_suffix(".input").write_bytes(data)


async def replay(targets: Sequence[Target], path: Path, data: bytes, logged: Logged) -> Report:
    """Repeat the input of a file with the target that its name, or that of its folder, begins with.

    Raises `LookupError` if there is none. Cancellation: no effect.
    """
    found = [target for target in targets if path.name.startswith(f"{target.folder}-") or path.parent.name == target.folder]
    if not found:
        raise LookupError(f"{path} is of no target; its name begins with that of one, as in the corpus")
    target = max(found, key=lambda target: len(target.folder))
    report = Report(target.name, seed=0, messages=1)
    if target.prepare is not None:
        await target.prepare()
    outcome = await attempt(target, data, logged, report)
    report.outcomes[outcome.label] += 1
    print(f"{target.name}: {outcome.label} {outcome.kind}")
    return report


async def _require_valid(target: Target, report: Report, logged: Logged) -> None:
    if target.prepare is not None:
        await target.prepare()
    found = await attempt(target, target.seeds[0], logged, report)
    if found.label not in {ACCEPTED, "fault", *target.also}:
        report.faults[f"the valid input is refused: {found}"] = target.seeds[0]


async def attempt(target: Target, data: bytes, logged: Logged, report: Report) -> Outcome:
    """Return the outcome of an input; a fault is added to the report. Cancellation: no effect."""
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_S)
    try:
        async with asyncio.timeout(PATIENCE_S):
            found = await target.run(data)
        if traces := logged.take():
            raise Fault(f"traceback in the log: {traces[0]}")
    except (Exception, TooLong) as error:
        logged.take()
        shown = "".join(traceback.format_exception(error)[-6:])
        report.faults.setdefault(_place(error), data)
        return Outcome("fault", shown)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return found


class TooLong(BaseException):
    """An input that took more than `LONGEST_S` of processor time; no handler of the product takes it for an error."""


def _interrupt(number: int, frame: Any) -> NoReturn:
    raise TooLong(f"more than {LONGEST_S:g} s of processor time")


signal.signal(signal.SIGVTALRM, _interrupt)


def _place(error: BaseException) -> str:
    """Return class, text and the last lines of code of an error: its identity among faults."""
    frames = traceback.extract_tb(error.__traceback__)
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames[-4:]))
    text = str(error)
    if isinstance(error, Fault) and (known := _CODE.findall(text)):  # a traceback in the log: its own places count
        return f"{text.splitlines()[0][:160]} {text.strip().splitlines()[-1][:160]} | " + " < ".join(
            map(":".join, known[:-5:-1])
        )
    return f"{type(error).__name__}: {_VARYING.sub('#', text)[:200]} | {where}"


def _keep(folder: Path, data: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{hashlib.sha256(data).hexdigest()[:16]}.input").write_bytes(data)


def _resident_bytes() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
