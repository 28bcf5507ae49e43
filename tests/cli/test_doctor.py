from __future__ import annotations

import subprocess
from collections import namedtuple
from contextlib import aclosing
from pathlib import Path

import pytest

from zerofleet.cli.commands import checkup
from zerofleet.storage.streams import open_stream

Usage = namedtuple("Usage", "total used free")


@pytest.mark.slow
def test_a_working_machine_passes_every_check(zerofleet, tmp_path):
    outcome = zerofleet("doctor", "--run-dir", str(tmp_path), "--json")
    report = outcome.json()
    assert [check for check in report["checks"] if check["status"] == "fail"] == []
    assert report["ok"] is True
    assert outcome.code == 0
    assert {"Python", "Packages", "Compiler cache", "torch", "Disk", "Unix sockets"} <= {c["name"] for c in report["checks"]}


def test_a_failed_check_is_shown_with_advice_and_exit_code_1(zerofleet, monkeypatch):
    broken = checkup.Finding("Disk", "fail", "full", "free some")
    monkeypatch.setattr(checkup, "checks", lambda **_: [lambda: broken, checkup.check_port])
    outcome = zerofleet("doctor")
    assert outcome.code == 1
    assert "fail Disk           full" in outcome.out
    assert "→ free some" in outcome.out
    assert "1 failed" in outcome.out


def test_an_old_python_fails_the_check():
    assert checkup.check_python((3, 10, 2)).status == "fail"
    assert checkup.check_python((3, 11, 0)).status == "ok"


def test_an_unpinned_package_version_is_a_warning(tmp_path):
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("# pins\nnumpy==0.1\ntyper==0.2  # old\n")
    found = checkup.check_packages(constraints)
    assert found.status == "warn"
    assert "(tested with 0.1)" in found.detail
    assert "typer" in found.detail
    assert checkup.check_packages(tmp_path / "absent").status == "ok"


def test_packages_of_a_checkout_are_compared_with_its_pins(monkeypatch, tmp_path):
    assert Path(__file__).parents[2] / "constraints.txt" == checkup.CONSTRAINTS
    assert checkup.CONSTRAINTS.is_file()
    packages = checkup.checks(run_dir=tmp_path)[1]
    installed = checkup.importlib.metadata.version
    monkeypatch.setattr(checkup.importlib.metadata, "version", lambda name: "0.1" if name == "numpy" else installed(name))
    found = packages()
    assert found.status == "warn"
    assert "numpy 0.1 (tested with " in found.detail


@pytest.mark.parametrize(("free", "status"), [(1 << 20, "fail"), (1 << 40, "ok")])
def test_a_full_disk_fails_the_check(monkeypatch, tmp_path, free, status):
    monkeypatch.setattr(checkup.shutil, "disk_usage", lambda path: Usage(free, 0, free))
    assert checkup.check_disk(tmp_path / "not" / "yet").status == status


def test_a_missing_kernel_is_a_warning_with_the_command_that_builds_it(monkeypatch, tmp_path):
    absent = checkup.library.find(tmp_path / "absent.so")
    monkeypatch.setattr(checkup.library, "find", lambda: absent)
    found = checkup.check_native_kernel()
    assert (found.status, found.name) == ("warn", "Native kernel")
    assert "python -m zerofleet.evaluators.native" in found.advice


@pytest.mark.parametrize(
    ("names", "detail"),
    [
        (("amx", "avx512", "avx2"), "amx, avx512, avx2; evaluates and trains residual towers on a CPU"),
        (("avx2",), "avx2; evaluates and trains residual towers on a CPU"),
        ((), "portable; not used by default without AVX2 (backend=native)"),
    ],
)
def test_the_instruction_sets_of_the_kernel_are_listed_the_best_first(monkeypatch, names, detail):
    lanes = {"amx": 16, "avx512": 16, "avx2": 8, "portable": 4}
    sets = (checkup.library.Instructions(number, name, lanes[name]) for number, name in enumerate(names or ("portable",)))
    found = checkup.library.Found(checkup.library.find().library, tuple(sets))
    monkeypatch.setattr(checkup.library, "find", lambda: found)
    finding = checkup.check_native_kernel()
    assert finding.status == "ok"
    assert finding.detail.startswith(detail)


def test_a_failed_import_of_torch_is_reported_with_its_last_line(monkeypatch):
    ended = subprocess.CompletedProcess([], 1, "", "Traceback\nImportError: libc10.so is missing\n")
    monkeypatch.setattr(checkup.subprocess, "run", lambda *_, **__: ended)
    found = checkup.check_torch()
    assert (found.status, found.detail) == ("fail", "ImportError: libc10.so is missing")


@pytest.mark.slow
def test_the_backend_of_an_inference_server_is_named_with_the_reason(monkeypatch):
    monkeypatch.setenv("ZEROFLEET_DEVICE", "cpu")
    monkeypatch.setenv("ZEROFLEET_BACKEND", "torchscript")
    found = checkup.check_backend()
    assert (found.status, found.detail) == ("ok", "torchscript in float32 on the CPU (backend=torchscript)")


@pytest.mark.slow
def test_a_backend_that_this_machine_lacks_fails_the_check(monkeypatch):
    monkeypatch.setenv("ZEROFLEET_DEVICE", "cpu")
    monkeypatch.setenv("ZEROFLEET_BACKEND", "cuda")
    found = checkup.check_backend()
    assert found.status == "fail"
    assert found.detail == "backend=cuda needs a GPU, and the device is cpu; use backend=auto"


async def test_a_reachable_stream_is_reported_with_its_waiting_games(tmp_path):
    url = f"sqlite:///{tmp_path}/games.db"
    async with aclosing(open_stream(url, name="mine")) as stream:
        await stream.publish("game-0", b"x")
    assert (await checkup.check_stream(url, "mine")).detail.endswith(": 1 games waiting in mine")
    assert (await checkup.check_stream(url, "games")).detail.endswith(": 0 games waiting in games")


@pytest.mark.parametrize(("folder", "status"), [(".", "ok"), ("absent", "fail")])
async def test_the_check_of_a_stream_makes_no_file(tmp_path, folder, status):
    found = await checkup.check_stream(f"sqlite:///{tmp_path}/{folder}/games.db", "games")
    assert found.status == status
    assert list(tmp_path.iterdir()) == []


def test_the_stream_of_the_settings_is_checked(zerofleet, tmp_path, monkeypatch):
    monkeypatch.setattr(checkup, "checks", lambda **_: [])
    monkeypatch.setenv("ZEROFLEET_STREAM_NAME", "mine")
    (tmp_path / "games.db").touch()
    assert "0 games waiting in mine" in zerofleet("doctor", "--stream-url", f"sqlite:///{tmp_path}/games.db").out


async def test_an_unreachable_stream_fails_the_check_without_showing_the_password(monkeypatch):
    monkeypatch.setattr(checkup, "STREAM_TIMEOUT_S", 0.2)
    found = await checkup.check_stream("redis://:secret@127.0.0.1:1/0", "games")
    assert found.status == "fail"
    assert "secret" not in found.detail


def test_broken_parts_of_other_packages_are_named(tmp_path, monkeypatch):
    assert checkup.check_own_parts().status == "ok"
    monkeypatch.syspath_prepend(tmp_path)
    info = tmp_path / "broken_parts-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-parts\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[zerofleet.games]\nbroken_game = no_such_game_module\n[zerofleet.learners]\nbroken = no_such_learner_module:LEARNER\n"
    )
    finding = checkup.check_own_parts()
    assert finding.status == "fail"
    assert "the game 'broken_game' cannot be loaded" in finding.detail
    assert "the package broken-parts offers it as 'no_such_learner_module:LEARNER'" in finding.detail


def test_every_gpu_is_named_as_a_device(monkeypatch):
    ended = subprocess.CompletedProcess([], 0, "2.13.0 | cuda:0 First, cuda:1 Second\n", "")
    monkeypatch.setattr(checkup.subprocess, "run", lambda *_, **__: ended)
    assert checkup.check_torch().detail == "2.13.0, cuda:0 First, cuda:1 Second"
