"""ARCHITECTURE.md against the tree: entries of the library, steps of the paths, sizes of modules."""

from __future__ import annotations

import ast
import re
import statistics
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
SHIPPED = ("games", "zerofleet", "inference_server", "selfplay_worker", "trainer", "gatekeeper", "laboratory", "ui", "client")
STEP = re.compile(r"(\d+) (\w+(?:\.\w+)?) +([\w/]+\.py)")
MOST_ENTRIES, MOST_LOOSE_MODULES = 16, 6
MOST_LINES, MOST_LINES_IN_THE_MIDDLE = 400, 120
MOST_STEPS_OF_A_LEAF = 14
MOST_GLOSSARY_LINES = 40


def entries() -> list[str]:
    found = [path for path in (ROOT / "zerofleet").iterdir() if path.name not in {"__pycache__", "py.typed"}]
    return sorted(path.name + "/" * path.is_dir() for path in found)


def steps(title: str) -> list[tuple[str, str, str]]:
    """Return number, function and file of each step of a path."""
    return STEP.findall(PAGE.split(f"**{title}")[1].split("```")[1])


def defined(path: Path) -> set[str]:
    """Return the classes, functions and methods of a module, methods as `Class.method`."""
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    top = [node for node in tree.body if isinstance(node, kinds)]
    methods = {f"{owner.name}.{node.name}" for owner in top for node in owner.body if isinstance(node, kinds)}
    return {node.name for node in top} | methods


def test_the_library_has_few_entries_and_the_page_describes_each() -> None:
    assert len(entries()) <= MOST_ENTRIES
    assert len([name for name in entries() if name.endswith(".py")]) <= MOST_LOOSE_MODULES
    described = re.findall(r"^\| `([\w./]+)` \| [A-Z`]", PAGE.split("| entry of `zerofleet/` |")[1], flags=re.MULTILINE)
    assert sorted(described) == entries()


@pytest.mark.parametrize("title", ["A leaf, ", "A leaf in ", "A game, ", "A candidate, "])
def test_every_step_of_a_path_is_a_function_of_the_file_beside_it(title: str) -> None:
    found = steps(title)
    assert [int(number) for number, _, _ in found] == list(range(1, len(found) + 1))
    for _, name, file in found:
        assert name in defined(ROOT / file), f"{name} is not in {file}"


def test_a_leaf_takes_few_steps_from_the_block_to_the_device_and_back() -> None:
    assert len(steps("A leaf, ")) <= MOST_STEPS_OF_A_LEAF


def test_modules_are_short() -> None:
    files = [path for room in SHIPPED for path in (ROOT / room).rglob("*.py") if "_pb2" not in path.name]
    lengths = {path: len(path.read_text().splitlines()) for path in files}
    assert {str(path.relative_to(ROOT)): lines for path, lines in lengths.items() if lines > MOST_LINES} == {}
    assert statistics.median(lengths.values()) <= MOST_LINES_IN_THE_MIDDLE


def test_the_glossary_is_short_and_sorted() -> None:
    terms = re.findall(r"^\| ([a-z][^|]*?) \|", PAGE.split("## Glossary")[1].split("## Promises")[0], flags=re.MULTILINE)
    terms.remove("term")
    assert terms == sorted(terms)
    assert len(terms) <= MOST_GLOSSARY_LINES
