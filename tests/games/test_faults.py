"""A fault in a game's own rules is named by game, rule, reason and line, wherever its exception surfaces."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import games
from games import code_sources, core
from games.errors import IllegalMove
from games.faults import fault_of
from tests.games.test_own_game import file_on_page
from zerofleet.search import SearchSettings, warm_up

_LAST_LINE = "    state[game.piles] += 1\n"  # of the rule `play`
_DRAWING = """        return "\\n".join(f"{notation.column_name(pile)} {'|' * int(state[pile])}" for pile in range(self.piles))
"""

_numbers = itertools.count()


@pytest.fixture
def faulty_nim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Nim of docs/own_game.md, with further lines at the end of its rule `play`, or other lines in place of one."""
    name = f"nim{next(_numbers)}"  # numba knows a class by its name
    monkeypatch.syspath_prepend(tmp_path)

    def made(code: str, *, imports: str = "", in_place_of: str = "") -> Any:
        further = "".join(f"    {line}\n" for line in code.splitlines())
        old, new = (in_place_of, further) if in_place_of else (_LAST_LINE, _LAST_LINE + further)
        text = file_on_page("nim.py")
        assert old in text
        text = text.replace(old, new, 1).replace("import math\n", f"import math\n{imports}", 1)
        path = tmp_path / f"{name}.py"
        path.write_text(text.replace('"nim"', f'"{name}"').replace("Nim", name.title()))
        described = importlib.util.spec_from_file_location(name, path)
        assert described is not None
        assert described.loader is not None
        module = importlib.util.module_from_spec(described)
        monkeypatch.setitem(sys.modules, name, module)
        described.loader.exec_module(module)
        return games.make(name)

    yield made
    core._CLASSES.pop(name)
    for rules in core._RULES.values():
        for cls in [cls for cls in rules if cls.__module__ == name]:
            del rules[cls]
    for cls, rule in [key for key in code_sources._functions if key[0].__module__ == name]:
        del code_sources._functions[cls, rule]


def fault_in(call: Callable[[], object]) -> str:
    """The fault that the exception of a call tells of."""
    with pytest.raises(Exception, match=r".*") as raised:
        call()
    fault = fault_of(raised.value)
    assert fault is not None, raised.value
    return str(fault)


@pytest.mark.parametrize(
    ("code", "subject", "line"),
    [
        (
            'raise ValueError("sticks went wrong")',
            "raised ValueError: sticks went wrong",
            'raise ValueError("sticks went wrong")',
        ),
        ("assert state[0] > 9", "raised AssertionError", "assert state[0] > 9"),
        ("state.append(3)", "cannot be compiled: Unknown attribute 'append' of type array(int64, 1d, C)", "state.append(3)"),
        ("state[0] = stick", "cannot be compiled: NameError: name 'stick' is not defined", "state[0] = stick"),
        ("import math", "cannot be compiled: Use of unsupported opcode (IMPORT_NAME) found", "import math"),
    ],
)
def test_rule_reason_and_line_are_named_in_a_call_from_python_and_in_a_call_from_compiled_code(
    faulty_nim: Callable[..., Any], code: str, subject: str, line: str
) -> None:
    game = faulty_nim(code)
    state = games.new_state(game)
    for call in (lambda: core.play(game, state.copy(), 0), lambda: games.replay(game, [0])):
        told = fault_in(call).splitlines()
        assert told[0] == f"play of {type(game).__name__} {subject}"
        assert told[1].startswith("  ")
        assert f"{game.spec().name}.py, line " in told[1]
        assert told[1].endswith(f": {line}")


def test_a_fault_below_the_search_is_named(faulty_nim: Callable[..., Any]) -> None:
    game = faulty_nim('if state[game.piles] == 2:\n    raise ValueError("two")')
    assert fault_in(lambda: warm_up(game, SearchSettings(), versions=[1, 1])).startswith(
        f"play of {type(game).__name__} raised ValueError: two\n"
    )


def test_the_conformance_test_names_a_fault_with_the_moves_and_the_position(faulty_nim: Callable[..., Any]) -> None:
    game = faulty_nim('if state[game.piles] == 3:\n    raise ValueError("three")')
    with pytest.raises(games.GameContractError) as refusal:
        games.check_game(game)
    told = str(refusal.value)
    assert told.startswith(f"{game} breaks law 11 of games.core: No rule raises an exception")
    assert f"play of {type(game).__name__} raised ValueError: three" in told
    assert "after the moves [" in told


def test_python_methods_of_a_game_are_named_too(faulty_nim: Callable[..., Any]) -> None:
    game = faulty_nim("pass")
    assert fault_in(lambda: game.draw(games.new_state(game)[:1])).startswith(
        f"<genexpr> of {type(game).__name__} raised IndexError: "
    )


def test_a_fault_in_code_that_was_compiled_from_a_copy_of_the_file_is_named(
    faulty_nim: Callable[..., Any], tmp_path: Path
) -> None:
    game = faulty_nim("raise ValueError('none')")
    name = f"{game.spec().name}.py"
    (tmp_path / "copies").mkdir()
    for text in ((tmp_path / name).read_text(), "a copy that was edited"):
        (tmp_path / "copies" / name).write_text(text)
        with pytest.raises(ValueError, match="none") as raised:
            exec(compile("raise ValueError('none')", str(tmp_path / "copies" / name), "exec"))
        assert (fault_of(raised.value) is not None) == (text != "a copy that was edited")


def test_a_fault_below_a_method_is_named_by_the_line_of_the_game(faulty_nim: Callable[..., Any]) -> None:
    game = faulty_nim("    return notation.column_name('x')", in_place_of=_DRAWING)
    told = fault_in(lambda: game.draw(games.new_state(game))).splitlines()
    assert told[0] == f'draw of {type(game).__name__} raised TypeError: can only concatenate str (not "int") to str'
    assert told[1].endswith(": return notation.column_name('x')")
    with pytest.raises(games.GameContractError, match=r"breaks law 11 (.*\n)*after the moves \[\] from the start"):
        games.check_game(game)


@pytest.mark.parametrize("decorator", ["@compiled\n", ""], ids=["compiled", "plain"])
def test_a_fault_in_a_module_that_the_rules_import_is_named_by_its_own_line(
    faulty_nim: Callable[..., Any], tmp_path: Path, decorator: str
) -> None:
    helper = f"sticks{next(_numbers)}"
    (tmp_path / f"{helper}.py").write_text(
        "from games.compiled import compiled\n\n\n"
        f'{decorator}def counted(sticks):\n    if sticks == 0:\n        raise ValueError("none left")\n    return sticks\n'
    )
    place = {"in_place_of": _DRAWING} if not decorator else {}
    code = "counted(state[0])" if decorator else "    counted(state[0])\n    return 'sticks'"
    game = faulty_nim(code, imports=f"from {helper} import counted\n", **place)
    with pytest.raises(games.GameContractError) as refusal:
        games.check_game(game)
    told = str(refusal.value)
    assert f"\ncounted of {type(game).__name__} raised ValueError: none left\n" in told
    assert f'{helper}.py, line {7 if decorator else 6}: raise ValueError("none left")' in told
    assert "after the moves [" in told


def test_a_refusal_in_a_position_of_the_check_is_told_with_the_moves(faulty_nim: Callable[..., Any]) -> None:
    game = faulty_nim("    raise games.IllegalMove('no picture')", imports="import games\n", in_place_of=_DRAWING)
    with pytest.raises(games.GameContractError, match=r"breaks law 11 (.*\n)*no picture\nafter the moves \[\]"):
        games.check_game(game)


def test_a_defect_of_the_product_that_a_games_file_calls_is_no_fault_of_the_game(faulty_nim: Callable[..., Any]) -> None:
    code = "    return atomic_publish(None, b'')"
    game = faulty_nim(code, imports="from zerofleet.storage.files import atomic_publish\n", in_place_of=_DRAWING)
    with pytest.raises(AttributeError) as raised:
        game.draw(games.new_state(game))
    assert fault_of(raised.value) is None


@pytest.mark.parametrize("error", [IllegalMove("'z9' is not legal"), KeyError("slot")])
def test_a_refusal_and_a_defect_elsewhere_are_no_fault_of_a_game(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        raise error
    assert fault_of(raised.value) is None
