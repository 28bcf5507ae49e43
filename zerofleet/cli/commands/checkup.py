"""Checks of `zerofleet doctor`: each examines one requirement and returns a finding; none raises."""

from __future__ import annotations

import asyncio
import functools
import importlib.metadata
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal

import numpy as np
import psutil

from games import core, tic_tac_toe
from games.faults import loading_fault
from zerofleet.errors import ConfigurationError, ZerofleetError
from zerofleet.evaluators.native import library
from zerofleet.presets import learners
from zerofleet.storage.streams import SqliteStream, open_stream
from zerofleet.strength.processors import usable_cores

__all__ = ["Finding", "check_stream", "checks"]

MIB = 1 << 20
GIB = 1 << 30
DISK_NEEDED_BYTES = 2 * GIB  # a long laptop run keeps a few hundred MiB of games and models
MEMORY_NEEDED_BYTES = 2 * GIB  # four processes, two of them with torch
SHARED_MEMORY_NEEDED_BYTES = 64 * MIB  # default of a container
CHILD_TIMEOUT_S = 120.0
STREAM_TIMEOUT_S = 5.0
CONSTRAINTS = Path(__file__).resolve().parents[3] / "constraints.txt"  # of a checkout; an installed wheel has none


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    name: str
    status: Literal["ok", "warn", "fail"]
    detail: str
    advice: str = ""
    """Remedy; empty if the check passed."""


def checks(*, run_dir: Path) -> Sequence[Callable[[], Finding]]:
    """Return the checks in display order."""
    return (
        check_python,
        functools.partial(check_packages, CONSTRAINTS),
        check_kernel_cache,
        check_torch,
        check_native_kernel,
        check_backend,
        check_processors,
        check_memory,
        check_shared_memory,
        functools.partial(check_disk, run_dir),
        check_port,
        check_unix_socket,
        check_own_parts,
    )


def check_python(version: tuple[int, int, int] = sys.version_info[:3]) -> Finding:
    """Check for Python 3.11 or newer."""
    text = ".".join(map(str, version))
    if version < (3, 11):
        return Finding("Python", "fail", text, "install Python 3.11 or newer and rebuild the environment: make venv")
    return Finding("Python", "ok", f"{text} in {sys.prefix}")


def check_packages(constraints: Path) -> Finding:
    """Check that every required package is installed in its tested version."""
    wanted = _read_constraints(constraints)
    missing, other = [], []
    for name in _required_packages():
        try:
            found = importlib.metadata.version(name).partition("+")[0]
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
            continue
        if (pinned := wanted.get(_canonical(name))) not in {None, found}:
            other.append(f"{name} {found} (tested with {pinned})")
    if missing:
        return Finding("Packages", "fail", f"not installed: {', '.join(missing)}", "make venv")
    if other:
        return Finding("Packages", "warn", "; ".join(other), "make venv installs the versions of constraints.txt")
    return Finding(
        "Packages", "ok", "as in constraints.txt" if wanted else "all installed (no constraints.txt beside the package)"
    )


def check_kernel_cache() -> Finding:
    """Check that the rules compile and the compiled code can be cached on disk."""
    begun = time.monotonic()
    game = tic_tac_toe.TicTacToe()
    core.reset(game, np.zeros(game.spec().state_size, game.spec().state_dtype), 0)
    cache = getattr(getattr(tic_tac_toe.reset, "_cache", None), "cache_path", None)
    took = f"rules compiled or loaded in {time.monotonic() - begun:.1f} s"
    if cache is None:
        return Finding("Compiler cache", "warn", "compilation is disabled", "unset NUMBA_DISABLE_JIT")
    if not os.access(cache, os.W_OK):
        return Finding(
            "Compiler cache", "warn", f"{cache} is not writable; {took}", "set NUMBA_CACHE_DIR to a writable directory"
        )
    return Finding("Compiler cache", "ok", f"{cache}; {took}")


def check_torch() -> Finding:
    """Check that torch imports, in a child process: this one does not need it. Every GPU is named, as for `--devices`."""
    code = (
        "import torch; print(torch.__version__, '|', "
        "', '.join(f'cuda:{n} {torch.cuda.get_device_name(n)}' for n in range(torch.cuda.device_count())) "
        "if torch.cuda.is_available() else 'no GPU, CPU only')"
    )
    try:
        child = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=CHILD_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Finding(
            "torch", "fail", f"did not import within {CHILD_TIMEOUT_S:.0f} s", "try again; if it still fails, make clean venv"
        )
    if child.returncode != 0:
        last = child.stderr.strip().rpartition("\n")[2] or f"the child exited with code {child.returncode}"
        return Finding("torch", "fail", last, "reinstall it: make clean venv")
    version, _, device = child.stdout.strip().partition(" | ")
    return Finding("torch", "ok", f"{version}, {device}")


def check_native_kernel() -> Finding:
    """Check for the compiled kernel, which evaluates and trains networks on a CPU faster than torch."""
    found = library.find()
    if found.library is None:
        advice = f"networks run in TorchScript and are trained by torch; install gcc, then {library.BUILD_COMMAND}"
        return Finding("Native kernel", "warn", found.reason, advice)
    names = ", ".join(known.name for known in found.instructions)
    detail = f"{names}; evaluates and trains residual towers on a CPU, torch all other networks"
    if found.instructions[0].lanes < 8:
        return Finding("Native kernel", "ok", f"{names}; not used by default without AVX2 (backend=native)")
    return Finding("Native kernel", "ok", detail)


def check_backend() -> Finding:
    """Check which backend an inference server with the settings of the environment would use, in a child process."""
    command = [sys.executable, "-m", "inference_server.backend_report"]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return Finding("Backend", "fail", f"not found within {CHILD_TIMEOUT_S:.0f} s", "try again")
    if child.returncode != 0:
        last = child.stderr.strip().rpartition("\n")[2] or f"the child exited with code {child.returncode}"
        return Finding("Backend", "fail", last, "correct device, precision or backend of the inference server")
    return Finding("Backend", "ok", child.stdout.strip())


def check_processors() -> Finding:
    """Check for at least two cores, so that search and network run in parallel."""
    usable = usable_cores()
    if usable < 2:
        return Finding("Processors", "warn", "1 usable core", "a run works, but search and network share the core")
    return Finding("Processors", "ok", f"{usable} usable cores")


def check_memory() -> Finding:
    """Check for enough free memory for a server, a worker, a trainer and a gatekeeper."""
    available = psutil.virtual_memory().available
    detail = f"{available / GIB:.1f} GiB available"
    if available < MEMORY_NEEDED_BYTES:
        return Finding("Memory", "warn", detail, f"a run needs {MEMORY_NEEDED_BYTES / GIB:.0f} GiB; try --preset tiny")
    return Finding("Memory", "ok", detail)


def check_shared_memory(path: Path = Path("/dev/shm")) -> Finding:  # noqa: S108  (read only)
    """Check for space in /dev/shm, which torch uses between processes."""
    if not path.is_dir():
        return Finding("Shared memory", "warn", f"{path} does not exist", "multi-process training needs it")
    free = shutil.disk_usage(path).free
    if free < SHARED_MEMORY_NEEDED_BYTES:
        return Finding(
            "Shared memory", "warn", f"{free / MIB:.0f} MiB free in {path}", "start the container with --shm-size=256m"
        )
    return Finding("Shared memory", "ok", f"{free / GIB:.1f} GiB free in {path}")


def check_disk(directory: Path) -> Finding:
    """Check for space and write permission in the directory of runs."""
    place = directory.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    detail = f"{free / GIB:.1f} GiB free in {place}"
    if not os.access(place, os.W_OK):
        return Finding("Disk", "fail", f"{place} is not writable", "choose another directory with --run-dir")
    if free < DISK_NEEDED_BYTES:
        return Finding(
            "Disk", "fail", detail, f"free {DISK_NEEDED_BYTES / GIB:.0f} GiB or choose another directory with --run-dir"
        )
    return Finding("Disk", "ok", detail)


def check_port() -> Finding:
    """Check for a TCP port on loopback, for metrics."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            return Finding("Loopback", "ok", f"listened on 127.0.0.1:{server.getsockname()[1]}")
    except OSError as error:
        return Finding(
            "Loopback", "fail", f"cannot listen on 127.0.0.1: {error.strerror}", "services serve their metrics there"
        )


def check_unix_socket() -> Finding:
    """Check for unix sockets, which connect the services of a run."""
    with tempfile.TemporaryDirectory(prefix="zerofleet-") as directory:
        path = Path(directory) / "doctor.sock"
        try:
            with (
                socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server,
                socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client,
            ):
                server.bind(str(path))
                server.listen(1)
                client.connect(str(path))
        except OSError as error:
            return Finding("Unix sockets", "fail", f"{directory}: {error.strerror}", "set TMPDIR to a local file system")
        return Finding("Unix sockets", "ok", f"work in {Path(directory).parent}")


def check_own_parts() -> Finding:
    """Check that the games and learners of other packages can be loaded; every package that cannot is named."""
    found, broken = [], []
    for point in entry_points(group=core.ENTRY_POINT_GROUP):
        found.append(f"game {point.name}")
        try:
            core.make(point.name)
        except Exception as error:  # of the game's own code, or of its loading
            broken.append(loading_fault(point.name, error))
    for name in learners.offered():
        found.append(f"learner {name}")
        try:
            learners.declared(name)
        except ConfigurationError as error:
            broken.append(str(error))
    if broken:
        return Finding("Own parts", "fail", "; ".join(broken), "correct or remove the packages; without them all else works")
    return Finding("Own parts", "ok", ", ".join(found) or "no package adds games or learners")


async def check_stream(url: str, name: str) -> Finding:
    """Check that the configured game stream answers, by a request that the users of worker and trainer may make.

    Cancellation: the connection is closed.
    """
    shown = re.sub(r"//[^@/]*@", "//***@", url)
    try:
        async with aclosing(open_stream(url, name=name)) as stream, asyncio.timeout(STREAM_TIMEOUT_S):
            if isinstance(stream, SqliteStream) and not stream.path.exists():
                return _absent_file(stream.path)
            return Finding("Game stream", "ok", f"{shown}: {await stream.length()} games waiting in {name}")
    except TimeoutError:
        return Finding(
            "Game stream", "fail", f"{shown} did not answer within {STREAM_TIMEOUT_S:.0f} s", "is the server running?"
        )
    except ZerofleetError as error:
        return Finding("Game stream", "fail", str(error), "start the server, or correct --stream-url or --stream-name")


def _absent_file(path: Path) -> Finding:
    if not path.parent.is_dir():
        return Finding("Game stream", "fail", f"there is no folder {path.parent}", "make it or correct --stream-url")
    return Finding("Game stream", "ok", f"{path} does not exist yet; the first service makes it")


def _required_packages() -> list[str]:
    """Return the names of the packages required by the installed distribution, without extras."""
    try:
        required = importlib.metadata.requires("zerofleet") or []
    except importlib.metadata.PackageNotFoundError:
        return ["zerofleet"]
    return [match[0] for item in required if "extra ==" not in item and (match := re.match(r"[A-Za-z0-9._-]+", item))]


def _read_constraints(path: Path) -> dict[str, str]:
    """Return the pinned versions by canonical package name; empty without the file (an installed wheel)."""
    if not path.is_file():
        return {}
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    pairs = (line.split("==", 1) for line in lines if "==" in line)
    return {_canonical(name): version.strip().partition("+")[0] for name, version in pairs}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).strip().lower()
