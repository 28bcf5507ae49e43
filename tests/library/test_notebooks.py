"""The notebooks of examples/ run from the first cell to the last, and what is stored in them is true and small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from notebook_cells import EXAMPLES, code_cells, execute, kinds, read_notebook

NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
MOST_BYTES = 120_000
SAME = "same"
"""Tag of the cells whose outputs do not depend on what a run has learnt."""


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_on_a_run_that_exists_and_its_stored_outputs_are_true(path: Path, trained: Path) -> None:
    read = read_notebook(path)
    outputs = execute(read, trained.parents[1])
    for cell, shown in zip(code_cells(read), outputs, strict=True):
        assert kinds(cell["outputs"]) == kinds(shown)
        if SAME in cell["metadata"].get("tags", ()):
            assert [output.get("data") for output in cell["outputs"]] == [output.get("data") for output in shown]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_outputs_of_a_notebook_are_small_pictures_and_texts_without_a_place_of_their_machine(path: Path) -> None:
    assert path.stat().st_size < MOST_BYTES
    for cell in code_cells(read_notebook(path)):
        assert cell["outputs"] or "\n" in "".join(cell["source"]) or "close" in "".join(cell["source"])
        for kind in kinds(cell["outputs"]):
            assert kind in (["stdout"], ["text/plain"], ["image/svg+xml", "text/plain"], ["image/png", "text/plain"])
    assert not re.search(r"/(?:tmp|home|root|work)/", path.read_text(encoding="utf-8"))


def test_the_page_on_python_names_every_notebook() -> None:
    page = (EXAMPLES.parent / "docs" / "python.md").read_text(encoding="utf-8")
    assert NOTEBOOKS
    for path in NOTEBOOKS:
        assert f"(../examples/{path.name})" in page
