"""What the key of the compile cache covers."""

import importlib
from pathlib import Path

import pytest

import games
from games import code_cache, core
from zerofleet.testing import built_in_games


def _reached(name: str) -> set[str]:
    """Return the files of `games` whose edit makes the code of a game compile anew."""
    file = Path(importlib.import_module(type(games.make(name)).__module__).__file__)
    reached, waiting = set(), [file]
    while waiting:
        path = waiting.pop()
        if path.name not in reached and path in code_cache._sources_of(path.parent):
            reached.add(path.name)
            waiting += [path.parent / f"{other}.py" for other in code_cache._sources_of(path.parent)[path].imports]
    return reached


@pytest.mark.parametrize("name", built_in_games())
def test_an_edit_of_any_rule_of_a_game_makes_its_code_compile_anew(name):
    cls = type(games.make(name))
    modules = {rules[cls].__module__.rpartition(".")[2] for rules in core._RULES.values() if cls in rules}
    assert {f"{module}.py" for module in modules} <= _reached(name)
    assert {"core.py", "compiled.py"} <= _reached(name)


def test_an_edit_of_one_game_leaves_the_code_of_another():
    assert "connect_four.py" not in _reached("tic_tac_toe")
    assert "tic_tac_toe.py" not in _reached("connect_four")


def test_the_key_changes_with_the_text_of_a_file_that_is_only_imported(tmp_path, monkeypatch):
    (tmp_path / "rules.py").write_text("from games import (\n    helper,\n)\n")
    (tmp_path / "helper.py").write_text("x = 1\n")
    monkeypatch.setattr(code_cache, "_RULES_FOLDER", tmp_path)

    def key() -> str:
        code_cache._sources_of.cache_clear()
        code_cache._reachable.cache_clear()
        return code_cache._reachable(frozenset([tmp_path / "rules.py"]))

    before = key()
    assert key() == before
    (tmp_path / "other.py").write_text("y = 1\n")
    assert key() == before
    (tmp_path / "helper.py").write_text("x = 2\n")
    assert key() != before
    code_cache._sources_of.cache_clear()
    code_cache._reachable.cache_clear()
