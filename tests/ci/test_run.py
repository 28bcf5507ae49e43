"""Files and processes after `.ci/run`, with stand-ins for the programs that install packages and run containers."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FUNCTIONS, _ = (ROOT / ".ci/run").read_text().split("\n# The second servers of two suites", 1)

SUDO = 'exec "$@"'
DOCKER = '[ "$1" != info ] || [ -e answers ]'
ENGINE = "echo $$ > docker.pid; touch answers; exec tail -f /dev/null"
# The script waits for the start of an engine and for its end, which a parent that waits for no child never notes.
WAITS_FOR_THE_START = 'case "$*" in *"docker info"*) shift; exec "$@";; esac'
GIVES_UP = "exit 124"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder with the functions of the script; `shared/tools/docker-engine` and `bin` beside it are not there yet."""
    (tmp_path / "checkout/.ci").mkdir(parents=True)
    (tmp_path / "shared/tools").mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    programs(tmp_path, sudo=SUDO, sleep="exit 0")
    yield tmp_path / "checkout"
    with suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int((tmp_path / "checkout/docker.pid").read_text()), signal.SIGKILL)


def programs(folder, **contents):
    for name, content in contents.items():
        place = folder / "shared/tools/docker-engine" if name == "tool" else folder / "bin" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"#!/bin/sh\n{content}\n")
        place.chmod(0o755)


def run(checkout, call):
    script = checkout / ".ci/run"
    places = {"/var/run/docker.pid": "docker.pid", "/usr/sbin/policy-rc.d": "policy-rc.d", "/var/log/dockerd-ci.log": "log"}
    text = f"{FUNCTIONS}\n{call}\n"
    for place, instead in places.items():
        assert place in text
        text = text.replace(place, instead)
    script.write_text(text)
    return subprocess.run(["bash", str(script)], check=False, capture_output=True, text=True, timeout=60)


@pytest.mark.slow
def test_a_failed_installation_leaves_no_policy_against_services(checkout):
    programs(checkout.parent, **{"apt-get": "exit 100"})
    assert run(checkout, "install_packages redis-server").returncode == 100
    assert not (checkout / "policy-rc.d").exists()


@pytest.mark.slow
def test_an_installation_meets_a_policy_against_services_and_leaves_none(checkout):
    programs(checkout.parent, **{"apt-get": "test -x policy-rc.d"})
    assert run(checkout, "install_packages redis-server; test ! -e policy-rc.d").returncode == 0


@pytest.mark.slow
def test_the_policy_of_the_machine_stays(checkout):
    programs(checkout.parent, **{"apt-get": "exit 100"})
    (checkout / "policy-rc.d").write_text("of the machine")
    assert run(checkout, "install_packages redis-server").returncode == 100
    assert (checkout / "policy-rc.d").read_text() == "of the machine"


@pytest.mark.slow
@pytest.mark.parametrize("started", [{"dockerd": ENGINE}, {"tool": f"setsid sh -c '{ENGINE}' >log 2>&1 & exit 1"}])
def test_the_engine_that_the_script_started_ends_with_it(checkout, started):
    programs(checkout.parent, docker=DOCKER, timeout=WAITS_FOR_THE_START, **started)
    call = "start_engine || true; until [ -e answers ]; do sleep 1; done; cp docker.pid noted; exit 7"
    assert run(checkout, call).returncode == 7
    assert has_ended(int((checkout / "noted").read_text()))


@pytest.mark.slow
@pytest.mark.parametrize("failing", [{"dockerd": "exit 1"}, {"tool": "exit 1"}])
def test_an_engine_that_the_script_cannot_reach_runs_on(checkout, failing):
    programs(checkout.parent, docker=DOCKER, timeout=GIVES_UP, **failing)
    with subprocess.Popen([str(shutil.which("tail")), "-f", "/dev/null"]) as engine:
        (checkout / "docker.pid").write_text(str(engine.pid))
        assert run(checkout, "start_engine || exit 7").returncode == 7
        engine.kill()
        assert engine.wait() == -signal.SIGKILL


def has_ended(process):
    """Return whether the process has ended, or ends within half a minute."""
    try:
        ended = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([ended], [], [], 30)[0])
    finally:
        os.close(ended)
