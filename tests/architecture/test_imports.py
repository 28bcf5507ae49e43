"""Imports point downwards: no two modules need each other, at whatever time, and the SDK of traces stays behind one module."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("games", "zerofleet", "inference_server", "selfplay_worker", "trainer", "gatekeeper", "laboratory", "ui")


def source_modules() -> dict[str, Path]:
    """Return the file of every module of the product, by dotted name; a package's is its `__init__.py`."""
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in files}


MODULES = source_modules()


def imported_names(module: str) -> Iterator[str]:
    """Yield the dotted names that a module imports anywhere: at its top, in functions and for type checkers."""
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{source}.{alias.name}" for alias in node.names)


def imported_modules(module: str) -> set[str]:
    """Return the modules of the product that a module imports; for a name in a module, that module."""
    found = {name if name in MODULES else name.rpartition(".")[0] for name in imported_names(module)}
    return {name for name in found if name in MODULES and name != module}


def test_no_two_modules_import_each_other_not_even_in_functions_or_for_types() -> None:
    sorter = TopologicalSorter({module: imported_modules(module) for module in MODULES})
    try:
        sorter.prepare()
    except CycleError as error:
        raise AssertionError(" imports ".join(reversed(error.args[1]))) from None


def test_the_sdk_of_traces_is_imported_by_one_module() -> None:
    sdk = ("opentelemetry.sdk", "opentelemetry.exporter")
    assert [module for module in MODULES if any(name.startswith(sdk) for name in imported_names(module))] == [
        "zerofleet.telemetry.tracing_sdk"
    ]


def test_services_read_their_settings_before_torch_and_agents_are_imported() -> None:
    code = "import sys, trainer.__main__, inference_server.__main__; print(*sys.modules)"
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()
    assert "trainer.settings" in imported
    assert not {"torch", "zerofleet.agents.model.mcts", "zerofleet.agents.uct.agent"} & set(imported)
