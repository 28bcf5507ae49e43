"""Execution of the notebooks in examples/, without Jupyter.

Their cells are plain Python, without magics or `await`, so that a cell is a module of which the last expression is displayed. A
kernel (nbclient, ipykernel, and the twenty packages that these need) would add processes and nothing that the cells use.

    python tests/library/notebook_cells.py        execute them in an empty folder, and store their outputs
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

EXAMPLES = Path(__file__).parents[2] / "examples"
DOTS_PER_INCH = 96


def read_notebook(path: Path) -> dict[str, Any]:
    """Return a notebook."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cells with code, in order."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def execute(notebook: dict[str, Any], folder: Path) -> list[list[dict[str, Any]]]:
    """Execute the cells in a folder, and return the outputs of each, as nbformat has them. Raises what a cell raises."""
    mpl.use("agg")  # as the inline backend: a figure is shown by the end of its cell
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.chdir(folder):
        return [_execute(cell, number, names) for number, cell in enumerate(code_cells(notebook), start=1)]


def kinds(outputs: list[dict[str, Any]]) -> list[list[str]]:
    """Return the forms of each output: MIME types, or the name of a stream."""
    return [sorted(output["data"]) if "data" in output else [output["name"]] for output in outputs]


def _execute(cell: dict[str, Any], number: int, names: dict[str, Any]) -> list[dict[str, Any]]:
    tree = ast.parse("".join(cell["source"]))
    shown = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        value = None if shown is None else eval(compile(ast.Expression(shown.value), f"cell {number}", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)})
    if value is not None:
        outputs.append({"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": _forms(value)})
    return outputs + [{"output_type": "display_data", "metadata": {}, "data": data} for data in _figures()]


def _forms(value: Any) -> dict[str, Any]:
    forms: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    draw: Callable[[], str | None] | None = getattr(value, "_repr_svg_", None)
    picture = None if draw is None else draw()
    if picture is not None:
        forms["image/svg+xml"] = picture.splitlines(keepends=True)
    return forms


def _figures() -> list[dict[str, Any]]:
    drawn = []
    for number in plt.get_fignums():
        figure, file = plt.figure(number), io.BytesIO()
        figure.savefig(file, format="png", dpi=DOTS_PER_INCH, bbox_inches="tight")
        size = figure.get_size_inches()
        text = f"<Figure size {size[0] * figure.dpi:.0f}x{size[1] * figure.dpi:.0f} with {len(figure.axes)} Axes>"
        drawn.append({"image/png": base64.b64encode(file.getvalue()).decode(), "text/plain": [text]})
        plt.close(figure)
    return drawn


def _store(path: Path, folder: Path) -> None:
    notebook = read_notebook(path)
    for number, (cell, outputs) in enumerate(zip(code_cells(notebook), execute(notebook, folder), strict=True), start=1):
        cell["execution_count"], cell["outputs"] = number, outputs
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as empty:
        for example in sorted(EXAMPLES.glob("*.ipynb")):
            print(f"{example.name}, in process {os.getpid()}", flush=True)
            _store(example, Path(empty))
