"""SECURITY.md names tests: every one of them exists, and every row of its tables has one."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from zerofleet.rpc.security.tokens import PERMISSIONS, Role

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`((?:tests|zerofleet/testing)/[\w/.]+(?:::\w+)?)`", PAGE)))
SHOWN = re.findall(
    r"^## (?:Tests of these claims|Hostile and malformed input)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL
)


@functools.cache
def functions(path: Path) -> set[str]:
    """Names of the test functions of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("named", NAMED)
def test_every_test_named_on_the_security_page_exists(named):
    file, _, function = named.partition("::")
    path = ROOT / file
    assert path.is_file(), f"SECURITY.md names {file}, which is not there"
    assert path.name.startswith("test_") or file.startswith("zerofleet/testing/")
    assert not function or (function.startswith("test_") and function in functions(path)), f"{file} has no {function}"


def test_every_row_of_the_security_pages_test_tables_names_a_test():
    assert len(SHOWN) == 2
    rows = [line for part in SHOWN for line in part.splitlines() if line.startswith("|") and not set(line) <= set("| -")]
    heads = [row for row in rows if row.endswith(("| test |", "| shown by |"))]
    assert len(heads) == 6
    assert [
        row for row in rows if row not in heads and not re.search("`(tests|zerofleet/testing)/", row.rpartition(" | ")[2])
    ] == []
    assert len(rows) > 70


def test_no_test_named_on_the_security_page_is_skipped():
    for file in sorted({name.partition("::")[0] for name in NAMED}):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not re.search(r"^ *@pytest\.mark\.(skip|xfail)", text, re.MULTILINE), file


def test_the_table_of_calls_equals_the_one_in_the_code():
    shown = {
        method: {role for role, mark in zip(Role, re.findall(r"\| (yes|) *(?=\|)", row), strict=True) if mark}
        for method, row in re.findall(r"^\| `(/[\w./]+)` (\|.*\|)$", PAGE, flags=re.M)
    }
    assert shown == {method: set(roles) for method, roles in PERMISSIONS.items()}
