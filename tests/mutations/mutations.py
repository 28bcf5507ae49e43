"""Mutations of the code that keeps the promises: patches as data, one file for each promise beside this module.

[[mutation]]
name = "uids-forgotten"                        # unique within its promise
breaks = "A game that is sent twice counts twice."
file = "trainer/record_check.py"
old = '''index = self._replay.log.find_index(delivery.uid)'''    # must occur exactly once in the file
new = '''index = None'''
ci = true                                      # optional: run by CI; one of each promise
equivalent = "The log refuses the copy too."   # optional: the reason why no test can tell it from the original
more = [{ file = "...", old = "...", new = "..." }]    # optional: further replacements of the same mutation
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
PROMISES = tuple(f"p{number}" for number in range(1, 11))


class StalePatch(Exception):
    """A mutation no longer applies to the tree."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replacement of one piece of text in a file."""

    file: str
    old: str
    new: str

    def apply(self, text: str) -> str:
        """Return the mutated text of the file. Raises `StalePatch` unless `old` occurs exactly once."""
        if (found := text.count(self.old)) != 1:
            raise StalePatch(f"{self.file}: the text to replace occurs {found} times, want once: {self.old!r}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change of the code that breaks a promise."""

    promise: str
    """`p1` to `p10`."""
    name: str
    breaks: str
    """Sentence: the consequence for the promise."""
    edits: tuple[Edit, ...]
    ci: bool = False
    equivalent: str = ""
    """Argument why the change has no observable effect; empty for a mutation that a test must kill."""

    @property
    def title(self) -> str:
        """Promise and name, such as `p4/hash-unchecked`; the text that `-k` is compared with."""
        return f"{self.promise}/{self.name}"

    def mutated(self, root: Path) -> dict[str, str]:
        """Return the new text of every changed file of the tree at `root`. Raises `StalePatch`."""
        texts: dict[str, str] = {}
        for edit in self.edits:
            if edit.file not in texts:
                try:
                    texts[edit.file] = (root / edit.file).read_text()
                except OSError as error:
                    raise StalePatch(f"{self.title}: {edit.file} cannot be read ({error.strerror})") from error
            try:
                texts[edit.file] = edit.apply(texts[edit.file])
            except StalePatch as error:
                raise StalePatch(f"{self.title}: {error}") from None
        return texts


def load(folder: Path = FOLDER) -> list[Mutation]:
    """Read every mutation, in the order of promises and files. Raises `ValueError` for an unknown or missing key."""
    found = []
    for promise in PROMISES:
        entries = tomllib.loads((folder / f"{promise}.toml").read_text())["mutation"]
        found += [_mutation(promise, dict(entry)) for entry in entries]
    return found


def chosen(mutations: Iterable[Mutation], words: str) -> list[Mutation]:
    """Return the mutations whose title holds one of these words, all without words. `p1` is the promise, not `p10`."""
    wanted = words.split()

    def matches(mutation: Mutation) -> bool:
        return any(word == mutation.promise if word in PROMISES else word in mutation.title for word in wanted)

    return [mutation for mutation in mutations if not wanted or matches(mutation)]


def _mutation(promise: str, entry: dict[str, Any]) -> Mutation:
    try:
        edits = [Edit(entry.pop("file"), entry.pop("old"), entry.pop("new"))]
        edits += [Edit(**edit) for edit in entry.pop("more", [])]
        return Mutation(promise, edits=tuple(edits), **entry)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{promise}.toml: a mutation has a wrong or missing key: {error}") from error
