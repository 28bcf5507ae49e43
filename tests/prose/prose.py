"""Prose of the repository: docstrings, comments, messages and pages, with their places.

A line of prose is what a person reads: names, code spans and code blocks are left out.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import working_tree

ROOT = working_tree.ROOT
ROOMS = (
    "games",
    "zerofleet",
    "inference_server",
    "selfplay_worker",
    "trainer",
    "gatekeeper",
    "ui",
    "laboratory",
    "benchmarks",
    "examples",
    "client",
    "deploy",
)
GENERATED = re.compile(r"_pb2|docs/licences\.md")
_CODE = re.compile(r"`[^`]*`|\"[^\"]*\"|'[^']*'|https?://\S+|\{[^}]*\}")


@dataclass(frozen=True, slots=True)
class Prose:
    """A piece of text and where it begins."""

    path: Path
    line: int
    text: str
    opens: bool = False
    """Whether it is a docstring, whose first words name the thing."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A form that is refused."""

    match: re.Pattern[str]
    why: str
    better: str
    opening: bool


def patterns() -> list[Pattern]:
    """Return the refused forms of `patterns.toml`."""
    entries = tomllib.loads((Path(__file__).parent / "patterns.toml").read_text())["pattern"]
    return [
        Pattern(re.compile(entry["match"], re.IGNORECASE), entry["why"], entry["better"], entry.get("where") == "opening")
        for entry in entries
    ]


def files() -> Iterator[Path]:
    """Yield every page, notebook and module of the working tree that is written by hand."""
    for name in working_tree.files():
        path = ROOT / name
        in_room = name.split("/")[0] in ROOMS and name.endswith(".py")
        if (in_room or name.endswith((".md", ".ipynb"))) and not GENERATED.search(name):
            yield path


def prose(path: Path) -> Iterator[Prose]:
    """Yield the prose of a file."""
    text = path.read_text()
    readers = {".md": _of_page, ".ipynb": _of_notebook}
    yield from readers.get(path.suffix, _of_module)(path, text)


def findings(piece: Prose, refused: list[Pattern]) -> Iterator[str]:
    """Yield a line for each refused form in a piece of prose."""
    plain = _CODE.sub(lambda code: " " * len(code.group()), piece.text)
    for pattern in refused:
        if pattern.opening and not piece.opens:
            continue
        found = pattern.match.match(plain.lstrip()) if pattern.opening else pattern.match.search(plain)
        if found:
            line = piece.line + (0 if pattern.opening else plain[: found.start()].count("\n"))
            place = f"{piece.path.relative_to(ROOT)}:{line}"
            yield f"{place}: {found.group()!r}: {pattern.why} Better: {pattern.better}"


def _of_page(path: Path, text: str) -> Iterator[Prose]:
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield Prose(path, number, line)


def _of_notebook(path: Path, text: str) -> Iterator[Prose]:
    """Yield the cells of text; their line is the number of the cell."""
    for number, cell in enumerate(json.loads(text)["cells"], start=1):
        if cell["cell_type"] == "markdown":
            yield Prose(path, number, "".join(cell["source"]))


def _of_module(path: Path, text: str) -> Iterator[Prose]:
    tree = ast.parse(text)
    statements = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield Prose(path, node.lineno, node.value, opens=node in statements)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield Prose(path, token.start[0], token.string.lstrip("# "))
