"""Faults of a game's own code: exceptions raised in a rule, and rules that cannot be compiled.

Such an exception surfaces far from the rule, below search and services, and a message of the compiler runs over pages.
`fault_of` reads the exception and its traceback, in which compiled code has a line of its own, and names game, rule and line.
The exception may be raised below the rule: by a part of this package, or in a file that the rules import.
"""

from __future__ import annotations

import builtins
import linecache
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from numba.core.errors import NumbaError

from games import code_sources
from games.errors import GameError, RuleFault

__all__ = ["fault_of", "loading_fault"]

_ADVICE = "rules are loops over numbers and arrays; docs/own_game.md lists what compiles"
_LOCATION = re.compile(r'(?:File "|Raised from )([^"\n]+?)(?:", line | \()(\d+)')
_NOTE = re.compile(r"\.*\s*Raised from .*")
_ENDS_OF_REASON = ("During:", 'File "', "There are ", "There is ", "raised from")
_PIPELINE = "Failed in nopython mode pipeline"
_OWN = Path(__file__).parent
_CALLERS = tuple(
    _OWN.parent / name
    for name in ("zerofleet", "trainer", "selfplay_worker", "inference_server", "gatekeeper", "laboratory", "ui")
)
"""Code that calls rules and that no rule calls: an exception below it is its own until a frame of a rule comes first."""


class _Rule(NamedTuple):
    """Source of a registered rule."""

    game: str
    """Name of the game's class."""
    function: Callable[..., Any]
    path: Path

    @property
    def name(self) -> str:
        return f"{self.function.__name__} of {self.game}"

    @property
    def lines(self) -> range:
        code = self.function.__code__
        return range(code.co_firstlineno, 1 + max(line for _, _, line in code.co_lines() if line is not None))

    def line_of_missing(self, name: str) -> int | None:
        """Return the line with a name that neither module nor language defines; None if the rule uses no such name."""
        if name in self.function.__globals__ or hasattr(builtins, name) or name not in self.function.__code__.co_names:
            return None
        word = re.compile(rf"\b{name}\b")
        return next((line for line in self.lines if word.search(linecache.getline(str(self.path), line))), None)


def fault_of(error: BaseException) -> RuleFault | None:
    """Return the fault in a game's code that an exception tells of, or None for any other exception.

    The message states game, rule, reason and line. A `GameError` is a refusal, not a fault.
    """
    if isinstance(error, GameError):
        return error if isinstance(error, RuleFault) else None
    is_of_compiler = type(error).__module__ == NumbaError.__module__  # some of its errors have no common base
    return _uncompiled(str(error)) if is_of_compiler else _raised(error)


def loading_fault(name: str, error: Exception) -> str:
    """Return the text of an exception that a game raised as it was made or described; `name` is that of the game."""
    return str(error) if isinstance(error, GameError) else f"{name}: {fault_of(error) or repr(error)}"


def _raised(error: BaseException) -> RuleFault | None:
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename).absolute()
        if frame.lineno is None or any(path.is_relative_to(caller) for caller in _CALLERS):
            return None
        if rules := _rules_in(path):
            subject, where = _place(rules, frame.lineno, frame.name)
        elif rules := _rules_that_reach(path):
            subject, where = f"{frame.name} of {_games_of(rules)}", _line(path, frame.lineno)
        else:
            continue
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return RuleFault(f"{subject} raised {reason}\n{where}")
    return None


def _uncompiled(message: str) -> RuleFault:
    subject, where = _place_named_by(message) or ("a rule", "  (the compiler names no line)")
    return RuleFault(f"{subject} cannot be compiled: {_reason(message)}\n{where}\n{_ADVICE}")


def _place_named_by(message: str) -> tuple[str, str] | None:
    """Return the rule that a message of the compiler is about, and its line; None where the message names neither."""
    for path, line in _LOCATION.findall(message):
        if rules := _rules_in(Path(path).absolute()):
            return _place(rules, int(line), "a function")
    if (missing := re.search(r"NameError: name '(\w+)' is not defined", message)) is not None:
        for rule in _rules():
            if (number := rule.line_of_missing(missing[1])) is not None:
                return _place([rule], number, rule.name)
    return None


def _reason(message: str) -> str:
    """Return the innermost reason of a message of the compiler, which quotes those of called functions within its own."""
    _, found, innermost = message.rpartition(_PIPELINE)
    told = []
    for line in innermost.splitlines()[1 if found else 0 :]:
        if line.strip().startswith(_ENDS_OF_REASON):
            break
        told.append(line.strip().removeprefix(">>> "))
    return _NOTE.sub("", " ".join(" ".join(told).split())) or message.partition("\n")[0]


def _rules() -> Iterator[_Rule]:
    for cls, function in code_sources.rules():
        yield _Rule(cls.__name__, function, Path(function.__code__.co_filename).absolute())


def _rules_in(path: Path) -> list[_Rule]:
    """Return the rules of a file; code from the cache names the place of the file, or of a copy, from which it was compiled."""
    found = [rule for rule in _rules() if rule.path.name == path.name]
    here = [rule for rule in found if rule.path == path or (path.exists() and rule.path.samefile(path))]
    return here or [rule for rule in found if not path.exists() or path.read_bytes() == rule.path.read_bytes()]


def _rules_that_reach(path: Path) -> list[_Rule]:
    """Return the rules of the games that import a file outside this package, directly or through other files."""
    if path.is_relative_to(_OWN):
        return []
    others = [rule for rule in _rules() if not rule.path.is_relative_to(_OWN)]
    files = {file for file in {rule.path for rule in others} if path in code_sources.reached([file])}
    return [rule for rule in others if rule.path in files]


def _place(rules: Sequence[_Rule], line: int, function: str) -> tuple[str, str]:
    """Return the rule that holds a line of a file, otherwise the name of the function that does, and the line itself."""
    subject = next((rule.name for rule in rules if line in rule.lines), f"{function} of {_games_of(rules)}")
    return subject, _line(rules[0].path, line)


def _games_of(rules: Sequence[_Rule]) -> str:
    return " or ".join(sorted({rule.game for rule in rules}))


def _line(path: Path, number: int) -> str:
    return f"  {path}, line {number}: {linecache.getline(str(path), number).strip()}"
