"""Plans of fake children."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zerofleet.supervisor.child import ChildPlan

PROGRAM = Path(__file__).with_name("fake_child.py")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """File in which the children note what happens to them."""
    return tmp_path / "notes"


@pytest.fixture
def plan(tmp_path: Path, notes: Path) -> Callable[..., ChildPlan]:
    """Return a maker of plans: `plan("trainer", "dies")`."""

    def make(name: str, behaviour: str, grace_s: float = 10.0, **environment: str) -> ChildPlan:
        announce = tmp_path / f"{name}.json"
        command = (sys.executable, "-S", str(PROGRAM), name, str(notes), str(announce), behaviour)
        return ChildPlan(
            name=name,
            kind=name.partition("-")[0],
            command=command,
            environment=environment,
            announce=announce,
            log=tmp_path / f"{name}.log",
            grace_s=grace_s,
        )

    return make
