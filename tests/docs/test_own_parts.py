"""The page about tests of one's own parts: its test files pass against parts that keep the contracts, and no others."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"

SOUND = {
    "my_evaluator.py": """
import numpy as np
from zerofleet.errors import ModelNotFound
from zerofleet.evaluators.uniform import uniform_policy
from zerofleet.testing import FunctionEvaluator

def answer(batch, version):
    if version != 7:
        raise ModelNotFound("there is no other version than 7")
    return uniform_policy(batch.legal), np.zeros((len(batch), 2), np.float32)

def MyEvaluator():
    return FunctionEvaluator(answer)
""",
    "my_stream.py": """
from functools import partial
from zerofleet.storage.streams import SqliteStream

MyStream = partial(SqliteStream, name="games")
""",
    "my_store.py": "from zerofleet.storage.model_store import DirectoryStore as MyStore\n",
}
FORGETFUL = {
    "my_store.py": """
from zerofleet.storage.model_store import DirectoryStore

class MyStore(DirectoryStore):
    def verify(self, model, version, *, game=None):
        return self.manifest(model, version)
""",
}


def files_on(page: str) -> dict[str, str]:
    """The Python blocks of a page that begin with the comment `# name`, by that name."""
    blocks = re.findall(r"```python\n(# (\S+\.py)\n.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)
    return {name: block for block, name in blocks}


def run_pytest(directory: Path, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (directory / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(directory)]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.slow
def test_the_tests_on_the_page_pass_for_sound_parts(tmp_path: Path) -> None:
    shown = files_on("own_parts.md")
    assert sorted(shown) == ["test_my_evaluator.py", "test_my_store.py", "test_my_stream.py", "test_nim.py"]
    done = run_pytest(tmp_path, {**SOUND, **shown, "nim.py": files_on("own_game.md")["nim.py"]})
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 100  # type: ignore[index]


@pytest.mark.slow
def test_the_tests_on_the_page_name_what_an_unsound_store_forgets(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, {**FORGETFUL, "test_my_store.py": files_on("own_parts.md")["test_my_store.py"]})
    assert done.returncode == 1
    assert "TestMyStore::test_a_flipped_bit_is_refused[model.pt]" in done.stdout


@pytest.mark.slow
def test_only_the_suites_need_pytest() -> None:
    program = """
import sys
sys.modules["pytest"] = None
from zerofleet.errors import ConfigurationError
from zerofleet.testing import FunctionEvaluator, built_in_games
assert "tic_tac_toe" in built_in_games()
for name in ("EvaluatorContract", "StoreContract", "StreamContract"):
    try:
        __import__("zerofleet.testing", fromlist=[name])
        getattr(sys.modules["zerofleet.testing"], name)
    except ConfigurationError as error:
        assert "pip install pytest" in str(error)
    else:
        raise AssertionError(name)
"""
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)
