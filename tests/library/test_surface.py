"""The names that packages offer."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import zerofleet
from zerofleet import library

FACE = Path(str(zerofleet.__file__))
ROOT = FACE.parents[1]  # a checkout, or where the wheel is installed
SERVICES = ("inference_server", "selfplay_worker", "trainer", "gatekeeper")
INITS = sorted(
    path for name in ("games", "zerofleet", "laboratory", *SERVICES) for path in (ROOT / name).glob("**/__init__.py")
)


def imported_names(tree: ast.Module) -> set[str]:
    """Return the public names that a module imports at its top level."""
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module != "__future__"]
    names = {alias.asname or alias.name for node in imports for alias in node.names}
    return {name for name in names if not name.startswith("_")}


def exported_names(tree: ast.Module) -> set[str] | None:
    """Return `__all__` as it is written, None where there is none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return None


@pytest.mark.parametrize("path", INITS, ids=lambda path: ".".join(path.parent.relative_to(ROOT).parts))
def test_a_package_that_imports_names_lists_those_it_offers(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert not imported_names(tree) or exported_names(tree)


@pytest.mark.parametrize("name", ["games", "zerofleet", "laboratory", "ui", *SERVICES])
def test_a_package_of_the_wheel_states_that_it_has_types(name: str) -> None:
    assert (ROOT / name / "py.typed").exists()


def test_the_names_for_type_checkers_are_those_that_are_loaded() -> None:
    tree = ast.parse(FACE.read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    declared = {name for node in block.body if isinstance(node, ast.ImportFrom) for name in (a.name for a in node.names)}
    assert declared | {"__version__"} == set(zerofleet.__all__)
    for name in declared:
        assert getattr(zerofleet, name) is getattr(library, name)
    assert set(zerofleet.__all__) <= set(dir(zerofleet))


def test_the_version_is_that_of_the_distribution() -> None:
    assert zerofleet.__version__ == metadata.version("zerofleet")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'zerofleet' has no attribute 'trian'"):
        _ = zerofleet.trian


def test_the_import_alone_loads_none_of_the_large_packages() -> None:
    program = "import sys, zerofleet; print(sorted({'grpc', 'numba', 'numpy', 'pydantic', 'rich', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_the_library_is_loaded_without_torch() -> None:
    program = "import sys, zerofleet; zerofleet.train; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
