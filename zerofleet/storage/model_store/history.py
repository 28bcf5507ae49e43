"""History of champions: one JSON line each, append-only.

The pointer alone selects the champion, so a line or a file that cannot be read stops no service: it is skipped, reported and
kept as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import structlog

from zerofleet.contracts.manifests import Champion, parse, to_json
from zerofleet.errors import CorruptModel
from zerofleet.storage.files import whole_lines

__all__ = ["History", "completed"]

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class History:
    """Lines of a history, oldest first, and the champions in them."""

    lines: tuple[bytes, ...] = ()
    """Whole lines without their ends, unreadable ones included."""
    champions: tuple[Champion, ...] = ()
    fault: CorruptModel | None = None
    """First unreadable line, with file, line number and next step; or the unreadable file."""

    @classmethod
    def parse(cls, text: bytes, *, where: str) -> Self:
        """Parse a file; a crash may have left a partial last line, which is dropped."""
        lines = tuple(whole_lines(text).split(b"\n")[:-1])
        champions, fault = [], None
        for number, line in enumerate(lines, start=1):
            try:
                champions.append(parse(Champion, line, where=f"{where} line {number}"))
            except CorruptModel as error:
                fault = fault or CorruptModel(f"{error}; restore the line from a backup, or remove it")
        if fault is not None:
            log.warning("store.history_damaged", error=str(fault), effect="the champion is known; rollbacks skip the line")
        return cls(lines, tuple(champions), fault)

    @classmethod
    def unreadable(cls, fault: CorruptModel) -> Self:
        """Return the history of a file of which no line can be read."""
        log.warning("store.history_damaged", error=str(fault), effect="the champion is known; rollbacks know no other")
        return cls(fault=fault)

    def including(self, present: Champion | None) -> Self:
        """Return the history ending in the current champion, whose line is written after the pointer and may be missing."""
        if present is None or (self.champions and self.champions[-1].epoch >= present.epoch):
            return self
        line = to_json(present, indent=None).rstrip(b"\n")
        return type(self)((*self.lines, line), (*self.champions, present), self.fault)

    def dump(self) -> bytes:
        """Return the content of the file."""
        return b"".join(line + b"\n" for line in self.lines)


def completed(text: bytes, present: Champion | None, *, where: str) -> bytes:
    """Return the content of a file with whole lines, the last of which is the current champion's.

    No line is parsed where that is so already: every promotion asks, and a history may have many thousand.
    """
    if present is not None and (b"\n" + text).endswith(b"\n" + to_json(present, indent=None)):
        return text
    return History.parse(text, where=where).including(present).dump()
