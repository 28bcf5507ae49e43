"""Compiled code: never an old answer after an edit, and the same answer without compilation."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from numba.core.caching import IndexDataCacheFile

from games.compiled import compiled

NO_NOTATION = """
    start: int = 0

    def spec(self):
        raise NotImplementedError

    action_name = parse_action = draw = spec
"""
GAME = f"""
from typing import NamedTuple
import numpy as np
from games import GameSpec, notation, register, rule
from countdown_end import GOAL, bonus

@register("countdown")
class Countdown(NamedTuple):
{NO_NOTATION}
@rule(Countdown)
def reset(game, state, seed):
    state[:] = 0

@rule(Countdown)
def to_move(game, state):
    return int(state[0] & 1)

@rule(Countdown)
def legal_actions(game, state, out):
    if is_over(game, state):
        return 0
    out[0] = 0
    out[1] = 1
    return 2

@rule(Countdown)
def play(game, state, action):
    state[0] += 1 + bonus(state[0])

@rule(Countdown)
def is_over(game, state):
    return state[0] >= 4
"""

END = """
from games.compiled import compiled
GOAL = 4

@compiled
def bonus(plies):
    return BONUS
"""

COUNT = """
import sys
sys.path.insert(0, ".")
import numpy as np
from countdown import Countdown
from games.tools import perft
stack = np.zeros((6, 1), dtype=np.int64)
counts = np.zeros((6, 2), dtype=np.int64)
perft._count(Countdown(), stack, np.empty((6, 2), dtype=np.int16), counts, 0)
print(counts[:, 0].tolist(), sum(perft._count.stats.cache_hits.values()))
"""


def run(folder: Path, code: str, **environment: str) -> str:
    """Return what a new process prints; warnings are errors there."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environment,
        capture_output=True, text=True, check=True, timeout=200,
    ).stdout.strip()  # fmt: skip


PACKAGE = {
    "__init__.py": "from .rules import Countdown\n",
    "parameters.py": f"""
from typing import NamedTuple
from games import core

@core.register("countdown")
class Countdown(NamedTuple):
{NO_NOTATION}
""",
    "rules.py": GAME[GAME.index("@rule") :],
    "helper/__init__.py": "from .ends import bonus\n",
    "helper/ends.py": """
from games.compiled import compiled

def _read():
    from ..limits import BONUS
    return BONUS

_BONUS = _read()

@compiled
def bonus(plies):
    return _BONUS
""",
    "limits.py": "GOAL = 4\nBONUS = 0\n",
}
IMPORTS = """
from games import rule
from . import helper
from .limits import GOAL
from .parameters import Countdown
bonus = helper.bonus
"""


@pytest.mark.slow
def test_an_edited_helper_recompiles_its_game_removes_its_older_code_and_leaves_another_game_cached(tmp_path: Path) -> None:
    """Neither the file of the rules nor that of the kernel changes, only a file from which a function that a rule calls reads.

    The class imports neither its rules nor their helpers; these are reached by relative imports, one in a function.
    """

    def cached() -> set[str]:
        return {file.name for file in (tmp_path / "cache").rglob("*.nbc")}

    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    folder = tmp_path / "countdown"
    for name, text in PACKAGE.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(IMPORTS + text if name == "rules.py" else text)
    limits = folder / "limits.py"
    other = tmp_path / "countup.py"
    other.write_text(GAME.replace("ountdown", "ountup"))
    (tmp_path / "countup_end.py").write_text(END.replace("BONUS", "0"))
    both = COUNT.replace("from countdown", "import countup\nfrom countdown")
    assert run(tmp_path, both, **cache) == "[1, 2, 4, 8, 16, 0] 0"
    other.write_text(other.read_text() + "# edited\n")
    assert run(tmp_path, both, **cache) == "[1, 2, 4, 8, 16, 0] 1"
    older = cached()
    limits.write_text("GOAL = 4\nBONUS = 1\n")
    assert run(tmp_path, both, **cache) == "[1, 2, 4, 0, 0, 0] 0"
    assert len(cached()) == len(older)
    assert any(name.startswith("perft._count-") for name in older - cached())
    assert run(tmp_path, both, **cache) == "[1, 2, 4, 0, 0, 0] 1"


@pytest.mark.slow
def test_code_of_a_game_that_a_process_cannot_import_is_passed_over_and_unreadable_code_replaced(tmp_path: Path) -> None:
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for name in ("countdown", "countup"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}.py").write_text(GAME.replace("ountdown", name[1:]))
        (folder / f"{name}_end.py").write_text(END.replace("BONUS", "0"))
    run(tmp_path / "countdown", COUNT, **cache)
    other = COUNT.replace("ountdown", "ountup")
    assert run(tmp_path / "countup", other, **cache) == "[1, 2, 4, 8, 16, 0] 0"
    for file in (tmp_path / "cache").rglob("*.nb[ic]"):
        file.write_bytes(file.read_bytes()[:100] if file.suffix == ".nbc" else b"not a pickle")
    assert run(tmp_path / "countup", other, **cache) == "[1, 2, 4, 8, 16, 0] 0"
    assert run(tmp_path / "countup", other, **cache) == "[1, 2, 4, 8, 16, 0] 1"


@pytest.mark.slow
def test_of_two_processes_that_need_the_same_code_one_compiles_it(tmp_path: Path) -> None:
    (tmp_path / "countdown.py").write_text(GAME)
    (tmp_path / "countdown_end.py").write_text(END.replace("BONUS", "0"))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-W", "error", "-c", COUNT]
    children = [subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    shown = sorted(child.communicate(timeout=200)[0].strip() for child in children)
    assert shown == ["[1, 2, 4, 8, 16, 0] 0", "[1, 2, 4, 8, 16, 0] 1"]
    assert not list((tmp_path / "cache").rglob("*.lock"))


PRINTING = """
from games.compiled import compiled

@compiled
def once(number):
    print("number", number)
    return number

@compiled
def halves(number):
    print("half", number // 2)
    return once(number) if number < 2 else halves(number // 2)

@compiled
def all_of(number):
    return once(number) + halves(number)
"""


@pytest.mark.slow
def test_a_function_that_only_compiled_code_calls_can_print(tmp_path: Path) -> None:
    (tmp_path / "printing.py").write_text(PRINTING)
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    shown = "number 3 half 1 half 0 number 1 4"
    for _ in ("compiled", "from the cache"):
        code = "import sys; sys.path.insert(0, '.'); import printing; print(printing.all_of(3))"
        assert " ".join(run(tmp_path, code, **cache).split()) == shown


def test_an_unwritable_cache_does_not_stop_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(IndexDataCacheFile, "save", full)
    assert compiled(twice)(21) == 42


def twice(number: int) -> int:
    return 2 * number


@compiled
def halved(number: int) -> int:
    return number // 2


@compiled
def bits(number: int) -> int:
    return 0 if number == 0 else 1 + bits(halved(number))


@compiled
def decimal_digits_at_most(number: int) -> int:
    return bits(number) * 3 // 10 + 1


def test_a_function_has_machine_code_only_if_python_calls_it_or_it_calls_itself() -> None:
    assert decimal_digits_at_most(1000) == 4
    assert decimal_digits_at_most.signatures
    assert not halved.signatures
    assert not bits.signatures
    assert halved(9) == 4
    assert bits(9) == 4
    assert len(halved.signatures) == len(bits.signatures) == 1


def test_a_function_without_a_file_is_compiled_but_not_cached() -> None:
    typed: dict[str, Callable[[int], int]] = {}
    exec("def thrice(number):\n    return 3 * number\n", typed)
    assert compiled(typed["thrice"])(14) == 42


PLAY = """
import hashlib
import numpy as np
from games import make
from games.tools.playthrough import transcript
from games.kit.randomness import gamma, gumbel
digest = hashlib.sha256()
for name, parameters in (("tic_tac_toe", {}), ("connect_four", {}), ("connect_four", {"columns": 30, "connect": 3})):
    for seed in range(3):
        digest.update(transcript(make(name, **parameters), seed).encode())
word = np.array([2**64 - 3], dtype=np.uint64)
digest.update(np.array([gamma(word, 0.3) for _ in range(50)] + [gumbel(word)]).round(12).tobytes())
print(digest.hexdigest())
"""


@pytest.mark.slow
def test_plain_python_gives_the_same_results_without_a_warning(tmp_path: Path) -> None:
    assert run(tmp_path, PLAY, NUMBA_DISABLE_JIT="1") == run(tmp_path, PLAY)
