"""The limit of open files, which every process of the project raises at its start."""

from __future__ import annotations

import resource
import sys

import pytest

from zerofleet.cli import app
from zerofleet.service import lifecycle
from zerofleet.service.open_files import raise_limit

UNLIMITED = resource.RLIM_INFINITY


@pytest.fixture
def limits(monkeypatch):
    """Soft and hard limit of this process, which no test changes in earnest."""
    found = [1024, 4096]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: tuple(found))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, pair: found.__setitem__(slice(None), pair))
    return found


@pytest.mark.parametrize(
    ("soft", "hard", "raised"),
    [
        (1024, 1024, 1024),
        (1024, 4096, 4096),
        (1024, 1 << 30, 1 << 20),
        (1 << 21, 1 << 30, 1 << 21),
        (1024, UNLIMITED, 1 << 20),
        (UNLIMITED, UNLIMITED, UNLIMITED),
    ],
)
def test_the_soft_limit_is_raised_to_the_hard_one_or_a_million_and_never_lowered(limits, soft, hard, raised):
    limits[:] = soft, hard
    raise_limit()
    assert limits == [raised, hard]


def test_a_limit_that_the_kernel_refuses_stays_as_it_is(limits, monkeypatch):
    def refuse(kind, pair):
        raise PermissionError("Operation not permitted")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    raise_limit()
    assert limits == [1024, 4096]


def test_every_service_raises_its_limit(limits, monkeypatch):
    monkeypatch.setattr(lifecycle.logs, "configure", lambda *_: sys.exit("started"))
    with pytest.raises(SystemExit, match="started"):
        lifecycle.run_service(None, lifecycle.ServiceSettings())
    assert limits == [4096, 4096]


def test_the_command_line_raises_its_limit(limits, capsys):
    with pytest.raises(SystemExit):
        app.main(["--version"])
    assert limits == [4096, 4096]
