"""What the key of the compile cache covers."""

import gc
import importlib
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import games
from games import code_sources, core
from zerofleet.testing import built_in_games

PACKAGE = {
    "__init__.py": "from pack.handed import thing as shown\nfrom pack import everything\ndef own(): ...\n",
    "everything.py": "",
    "handed.py": "",
    "plain.py": "",
    "inner/__init__.py": "from . import deep\n",
    "inner/deep.py": "",
    "inner/other.py": "import math\nfrom numpy import zeros\n",
}
ALL_OF_IT = {"__init__.py", "everything.py", "handed.py"}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The folder of a package `pack` that can be imported but is not."""
    for name, text in PACKAGE.items():
        file = tmp_path / "pack" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    code_sources._places.cache_clear()
    yield tmp_path / "pack"
    code_sources._places.cache_clear()


def reached(file: Path, folder: Path) -> set[str]:
    """The other files that a file leads to, from a folder on."""
    return {str(found.relative_to(folder)) for found in code_sources.reached([file]) - {file}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from pack.plain import x", {"plain.py"}),
        ("from pack.plain import *", {"plain.py"}),
        ("from pack import plain", {"plain.py"}),
        ("from pack import (\n    plain,\n    shown,\n)", {"plain.py", "handed.py"}),
        ("from pack import shown as thing", {"handed.py"}),
        ("from pack import own", ALL_OF_IT),
        ("from pack import *", ALL_OF_IT),
        ("from pack import inner", {"inner/__init__.py", "inner/deep.py"}),
        ("from pack.inner import other", {"inner/other.py"}),
        ("from pack.inner.other import y", {"inner/other.py"}),
        ("def f():\n    from pack.inner import other", {"inner/other.py"}),
        ("try:\n    import pack.plain\nexcept ImportError: import pack.handed", {"plain.py", "handed.py"}),
        ("import pack.plain as x", {"plain.py"}),
        ("import pack.inner.other\npack.inner.other.y()", {"inner/other.py"}),
        ("import pack\npack.shown()", {"handed.py"}),
        ("import pack\npack.inner.other.y()\npack.plain", {"inner/other.py", "plain.py"}),
        ("import pack\npack.own()", ALL_OF_IT),
        ("import pack\nprint(pack)", ALL_OF_IT),
        ("import pack as x", ALL_OF_IT),
        ("import math, numpy as np\nfrom nowhere import z", set()),
    ],
)
def test_an_import_leads_to_the_module_that_holds_the_name(package, text, expected):
    script = package.parent / "script.py"
    script.write_text(text)
    assert reached(script, package) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from . import other", {"inner/other.py"}),
        ("from .other import y", {"inner/other.py"}),
        ("from .. import plain, shown", {"plain.py", "handed.py"}),
        ("from ..plain import x", {"plain.py"}),
        ("def f():\n    from ..inner.deep import x", {"inner/deep.py"}),
    ],
)
def test_a_relative_import_leads_to_a_file_of_the_same_package(package, text, expected):
    file = package / "inner" / "relative.py"
    file.write_text(text)
    assert reached(file, package) == expected


def test_packages_that_reexport_names_in_a_cycle_are_resolved(package):
    (package / "__init__.py").write_text("from pack.inner import lost\n")
    (package / "inner" / "__init__.py").write_text("from pack import lost\n")
    script = package.parent / "script.py"
    script.write_text("from pack import lost")
    assert reached(script, package) <= {"__init__.py", "inner/__init__.py"}


def test_a_library_is_followed_only_if_it_has_compiled_functions(package, tmp_path, monkeypatch):
    libraries = tmp_path / "site-packages"
    libraries.mkdir()
    package.rename(libraries / "pack")
    monkeypatch.syspath_prepend(libraries)
    script = tmp_path / "script.py"
    script.write_text("from pack.plain import x")
    assert reached(script, libraries) == set()
    for kept in (code_sources._places, code_sources._imported):
        kept.cache_clear()
    monkeypatch.setattr(code_sources, "_packages_with_compiled", {"pack"})
    assert reached(script, libraries) == {"pack/plain.py"}


def file_of_game(name: str) -> Path:
    return code_sources.file_of(type(games.make(name)))


@pytest.mark.parametrize("name", built_in_games())
def test_an_edit_of_any_rule_of_a_game_recompiles_its_code(name):
    cls = type(games.make(name))
    modules = {rules[cls].__module__ for rules in core._RULES.values() if cls in rules}
    found = code_sources.reached([file_of_game(name)])
    assert {Path(sys.modules[module].__file__) for module in modules} <= found
    assert {Path(importlib.import_module(module).__file__) for module in ("games.core", "games.compiled")} <= found


def test_an_edit_of_one_game_keeps_the_cached_code_of_another():
    assert file_of_game("connect_four") not in code_sources.reached([file_of_game("tic_tac_toe")])
    assert file_of_game("tic_tac_toe") not in code_sources.reached([file_of_game("connect_four")])


@pytest.mark.parametrize(
    "module", ["zerofleet.search.kernel", "zerofleet.search.hidden.predict", "zerofleet.agents.simple.greedy"]
)
def test_an_edit_of_a_game_keeps_cached_code_that_takes_no_game(module):
    found = code_sources.reached([Path(importlib.import_module(module).__file__)])
    assert not found & {file_of_game(name) for name in built_in_games()}
    assert Path(core.__file__) in found


def test_the_key_changes_with_the_text_of_a_file_that_is_only_imported(package):
    rules, helper = package / "rules.py", package / "helper.py"
    rules.write_text("from pack import (\n    helper,\n)\n")
    helper.write_text("x = 1\n")

    def key() -> str:
        for kept in (code_sources._text, code_sources._digest_of, code_sources._names, code_sources._imported):
            kept.cache_clear()
        return code_sources.digest([rules])

    before = key()
    assert key() == before
    (package / "other.py").write_text("y = 1\n")
    assert key() == before
    helper.write_text("x = 2\n")
    assert key() != before


def test_the_key_uses_sources_as_of_their_import(package, monkeypatch):
    """A function may be compiled long after its file was imported, and what it uses edited in between."""
    (package / "__init__.py").write_text("")
    (package / "rules.py").write_text(
        "from games.compiled import compiled\nfrom .limits import GOAL\n@compiled\ndef reached(x):\n    return x >= GOAL\n"
    )
    limits = package / "limits.py"
    limits.write_text("GOAL = 4\n")
    monkeypatch.setattr(code_sources, "_packages_with_compiled", set(code_sources._packages_with_compiled))
    importlib.import_module("pack.rules")
    for name in ("pack.rules", "pack.limits", "pack"):
        del sys.modules[name]  # monkeypatch would bring it back, for the tests that follow
    limits.write_text("GOAL = 5\n")
    assert limits in code_sources.reached([package / "rules.py"])
    assert code_sources._text(limits) == b"GOAL = 4\n"


def test_threads_that_read_sources_at_once_and_are_interrupted_in_the_parser_all_read_them():
    """Python 3.11 fails when a thread parses while another one's parser waits in a collection of garbage."""
    sources = sorted(Path(games.__file__).parent.rglob("*.py"))
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()

    def work(phase, info):
        sum(range(50))  # a place where threads take turns

    gc.callbacks.append(work)
    gc.set_threshold(50)
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            read = list(pool.map(code_sources._names.__wrapped__, sources * 3))
    finally:
        gc.callbacks.remove(work)
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval)
    assert read == read[: len(sources)] * 3
