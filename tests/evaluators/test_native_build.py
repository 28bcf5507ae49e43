"""Build of the compiled kernel: the compiler that is taken, its failures, and the library that is found."""

from __future__ import annotations

import os
import re
import selectors
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from zerofleet.evaluators.native import library
from zerofleet.evaluators.native.build import LIBRARY, BuildFailed, build, fingerprint

pytestmark = pytest.mark.usefixtures("built")


def test_without_a_compiler_the_build_states_the_reason(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(BuildFailed, match=r"no C compiler found \(no-such-compiler\)"):
        build(into=tmp_path)
    assert list(tmp_path.iterdir()) == []


def stand_in(folder: Path) -> Path:
    """Return a compiler that writes its arguments into the file that it was to make."""
    compiler = folder / "compiler"
    compiler.write_text('#!/bin/sh\nall="$*"\nwhile [ "$1" != -o ]; do shift; done\necho "$all" > "$2"\n')
    compiler.chmod(0o755)
    return compiler


def test_the_compiler_of_the_environment_may_have_options_and_two_builds_at_once_leave_one_library(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", f"{stand_in(tmp_path)} --own '-option of two words'")
    folder = tmp_path / "built"
    folder.mkdir()
    with ThreadPoolExecutor(2) as at_once:
        assert set(at_once.map(lambda _: build(into=folder), range(6))) == {folder / LIBRARY}
    assert (folder / LIBRARY).read_text().startswith("--own -option of two words -std=gnu11")
    assert list(folder.iterdir()) == [folder / LIBRARY]


def test_without_a_compiler_on_the_path_that_of_the_wheel_builds_for_any_processor(monkeypatch, tmp_path):
    (tmp_path / "ziglang").mkdir()
    (tmp_path / "ziglang" / "__init__.py").touch()
    program = """
import os, pathlib, sys
caches = [pathlib.Path(os.environ[f"ZIG_{kind}_CACHE_DIR"]) for kind in ("GLOBAL", "LOCAL")]
for cache in caches:
    (cache / "libc").mkdir(parents=True, exist_ok=True)
pathlib.Path(sys.argv[sys.argv.index("-o") + 1]).write_text(" ".join(sys.argv[1:]))
"""
    (tmp_path / "ziglang" / "__main__.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CC", "ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "built"
    folder.mkdir()
    assert build(into=folder).read_text().startswith("cc -mcpu=baseline -std=gnu11")
    assert list(folder.iterdir()) == [folder / LIBRARY]  # nor does the compiler's cache stay


@pytest.fixture
def endless(tmp_path, monkeypatch):
    """Compiler that waits for a process of its own, which opens the pipes `alive` and `started`; it ends late."""
    alive, started, compiler = tmp_path / "alive", tmp_path / "started", tmp_path / "compiler"
    os.mkfifo(alive)
    os.mkfifo(started)
    compiler.write_text(f"#!/bin/sh\n{{ echo > {started}; sleep 90; }} > {alive} &\nwait\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    return compiler


@contextmanager
def no_process_is_left(endless):
    """At the end of the block, wait until the pipe `alive` has no writer."""
    pipe = os.open(endless.with_name("alive"), os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield
        try:
            os.read(pipe, 1)
        except BlockingIOError:  # a writer that is killed ends soon
            with selectors.DefaultSelector() as selector:
                selector.register(pipe, selectors.EVENT_READ)
                assert selector.select(timeout=60)
        assert os.read(pipe, 1) == b""
    finally:
        os.close(pipe)


def test_a_build_out_of_time_leaves_no_process_of_a_compiler(monkeypatch, tmp_path, endless):
    monkeypatch.setattr("zerofleet.evaluators.native.build._TIMEOUT_S", 1.0)
    (tmp_path / "built").mkdir()
    with no_process_is_left(endless), pytest.raises(BuildFailed, match=r"timed out after 1\.0 seconds"):
        build(into=tmp_path / "built")
    assert list((tmp_path / "built").iterdir()) == []


def test_a_compiler_that_fails_ends_the_others_with_their_processes(tmp_path, endless):
    begin, rest = endless.read_text().split("\n", 1)
    fails = f'case "$*" in *training_portable*) read line < {tmp_path}/started; exit 3;; esac'
    endless.write_text(f"{begin}\n{fails}\n{rest}")
    (tmp_path / "built").mkdir()
    with no_process_is_left(endless), pytest.raises(BuildFailed, match=r"training_portable.* failed"):
        build(into=tmp_path / "built")
    assert list((tmp_path / "built").iterdir()) == []


def test_a_compiler_without_amx_builds_a_library_without_it(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("sys.platform", "linux")
    compiler = stand_in(tmp_path)
    begin, rest = compiler.read_text().split("\n", 1)
    fails = 'case "$*" in *-mamx-tile*) echo "unknown option" >&2; for last; do :; done; echo > "$last"; exit 1;; esac'
    compiler.write_text(f"{begin}\n{fails}\n{rest}")
    monkeypatch.setenv("CC", str(compiler))
    (tmp_path / "built").mkdir()
    linked = build(into=tmp_path / "built").read_text()
    assert "tower_avx512.o" in linked
    assert "tower_amx.o" not in linked
    assert "-DZF_AMX" not in linked
    assert re.search(r"note: built without AMX: .* failed:\nunknown option", capsys.readouterr().err)
    monkeypatch.setenv("CC", str(stand_in(tmp_path)))
    assert "-DZF_AMX" in build(into=tmp_path / "built").read_text()
    monkeypatch.setattr("sys.platform", "darwin")
    assert "-DZF_AMX" not in build(into=tmp_path / "built").read_text()


def test_a_folder_that_cannot_be_written_fails_the_build_with_the_reason(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", str(stand_in(tmp_path)))
    with pytest.raises(BuildFailed, match=f"absent/{LIBRARY} cannot be written: .*No such file"):
        build(into=tmp_path / "absent")


def test_a_missing_or_foreign_library_is_found_with_the_reason(tmp_path):
    absent = library.find(tmp_path / "absent.so")
    assert absent.library is None
    assert "is not built; with a C compiler: python -m zerofleet.evaluators.native" in absent.reason
    (tmp_path / "text.so").write_text("no library")
    assert "cannot be loaded" in library.find(tmp_path / "text.so").reason


def test_a_library_of_other_sources_is_not_used(monkeypatch):
    monkeypatch.setattr(library, "fingerprint", lambda: "another")
    assert "built from other sources" in library.find.__wrapped__().reason
    assert len(fingerprint()) == 16


def test_a_library_without_its_sources_is_not_used(monkeypatch):
    def gone() -> str:
        raise FileNotFoundError("tower.c is gone")

    monkeypatch.setattr(library, "fingerprint", gone)
    assert "cannot be loaded: tower.c is gone" in library.find.__wrapped__().reason
