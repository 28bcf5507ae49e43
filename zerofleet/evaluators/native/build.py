"""`python zerofleet/evaluators/native/build.py`: compile the kernel of this folder into the shared library beside it.

The build of a wheel and of an editable install call `build`; neither fails without a compiler. Standard library alone, and no
import of this package, since the build runs before its dependencies are installed.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

__all__ = ["FOLDER", "LIBRARY", "SOURCES", "BuildFailed", "build", "compiling", "fingerprint"]

FOLDER = Path(__file__).resolve().parent
SOURCES = ("tower.c", "training.c", "calls.c", "training_calls.c", "tower.h", "training.h", "winograd.h", "split.h")
_OF_EACH_SET = ("tower", "training")
_OF_ALL = ("calls", "training_calls")
LIBRARY = "libzerofleet.so"
_COMPILERS = ("cc", "gcc", "clang")
_WHEEL = "ziglang"  # clang and a C library; without -mcpu it would compile for this machine's processor
_COMMON = ("-std=gnu11", "-O2", "-fPIC", "-ffp-contract=fast", "-fno-math-errno", "-Wall", "-Wextra")
_AVX512 = ("-mavx512f", "-mavx512vl", "-mavx2", "-mfma", "-mprefer-vector-width=512")
# Bytes of a vector, rows of a register tile (two vectors wide; one register is left for the weights), and flags, by name.
_SETS: dict[str, tuple[int, int, tuple[str, ...]]] = {
    "portable": (16, 6, ()),
    "avx2": (32, 6, ("-mavx2", "-mfma")),
    "avx512": (64, 12, _AVX512),
    "amx": (64, 12, (*_AVX512, "-DZF_AMX", "-mavx512bf16", "-mamx-tile", "-mamx-bf16")),
}
# The tower alone is built for AMX, on Linux, which lends the registers. A compiler without the instructions (gcc before 11)
# builds a library without them.
_AMX = "tower_amx.o"
_TIMEOUT_S = 300


class BuildFailed(Exception):
    """The library cannot be built here; the text states why."""


def fingerprint(folder: Path = FOLDER) -> str:
    """Return a hash of the sources, which the library carries, so that one of other sources is recognised."""
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()[:16]


def build(folder: Path = FOLDER, into: Path | None = None) -> Path:
    """Compile the sources in `folder` and return the library, which replaces an older one in one step.

    `into`: the library's folder, `folder` by default. Raises `BuildFailed` without a compiler, with its messages, or when
    the folder cannot be written.
    """
    compiler, target = _compiler(), (into or folder) / LIBRARY
    try:
        _build(compiler, folder, target)
    except OSError as error:
        raise BuildFailed(f"{target} cannot be written: {error}") from error
    return target


def _build(compiler: list[str], folder: Path, target: Path) -> None:
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as scratch:
        sets = ("portable", "avx2", "avx512") if x86 else ("portable",)
        parts = [(part, name) for name in sets for part in _OF_EACH_SET]
        objects = [f"{scratch}/{part}_{name}.o" for part, name in parts]
        commands = [
            [*compiling(name, compiler), "-c", str(folder / f"{part}.c"), "-o", compiled]
            for (part, name), compiled in zip(parts, objects, strict=True)
        ]
        compilers, tiles = _Compilers(scratch), f"{scratch}/{_AMX}"
        if x86 and sys.platform == "linux":
            commands.append([*compiling("amx", compiler), "-c", str(folder / "tower.c"), "-o", tiles])
        compilers.run(commands, optional=tiles)
        linked = f"{scratch}/{LIBRARY}"
        defined = [f'-DZF_SOURCES="{fingerprint(folder)}"', *(["-DZF_X86"] if x86 else [])]
        if Path(tiles).exists():
            objects.append(tiles)
            defined.append("-DZF_AMX")
        entries = [str(folder / f"{part}.c") for part in _OF_ALL]
        compilers.run([[*compiler, *_COMMON, *defined, "-shared", *entries, *objects, "-o", linked, "-lm", "-pthread"]])
        Path(linked).replace(target)


def compiling(instructions: str, compiler: list[str] | None = None) -> list[str]:
    """Return the command that compiles a source for an instruction set, without the names of files.

    Raises `BuildFailed` if no `compiler` is given or found.
    """
    width, rows, flags = _SETS[instructions]
    macros = (f"-DZF_SUFFIX={instructions}", f"-DZF_VECTOR_BYTES={width}", f"-DZF_ROWS={rows}")
    return [*(compiler or _compiler()), *_COMMON, *flags, *macros]


def _compiler() -> list[str]:
    """Return the command of the C compiler: of the environment variable CC, else the first on the path, else of the wheel."""
    try:
        named, *options = shlex.split(os.environ.get("CC", "")) or [""]
    except ValueError as error:
        raise BuildFailed(f"CC is not a command: {error}") from error
    names = (named,) if named else _COMPILERS
    for name in names:
        if found := shutil.which(name):
            return [found, *options]
    if not named and importlib.util.find_spec(_WHEEL):
        return [sys.executable, "-m", _WHEEL, "cc", "-mcpu=baseline"]
    raise BuildFailed(f"no C compiler found ({' or '.join(names)}); install gcc, or the wheel {_WHEEL}, and build again")


class _Compilers:
    """Compilers in progress, each in a process group of its own: it starts processes, which do not end with it."""

    def __init__(self, scratch: str) -> None:
        # The wheel's keeps its C library as compiled, 50 MB, where it can write, which a home need not be.
        caches = dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), f"{scratch}/cache")
        self._environment = caches | os.environ
        self._running: list[subprocess.Popen[str]] = []
        self._ended = False

    def run(self, commands: list[list[str]], *, optional: str = "") -> None:
        """Run commands at the same time; the first failure, or an interrupt from the keyboard, ends all of them.

        A compiler that fails to make the file `optional` ends no other; standard error has a line about it.
        """
        with ThreadPoolExecutor(len(commands)) as at_once:
            try:
                begun = {at_once.submit(self._run, command): command[-1] for command in commands}
                for done in as_completed(begun):
                    try:
                        done.result()
                    except BuildFailed as error:
                        if begun[done] != optional:
                            raise
                        Path(optional).unlink(missing_ok=True)  # of a compiler that was ended
                        sys.stderr.write(f"note: built without AMX: {error}\n")
            except BaseException:
                self._ended = True
                for compiler in self._running:
                    _kill(compiler)
                raise

    def _run(self, command: list[str]) -> None:
        pipe = subprocess.PIPE
        try:
            compiler = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=self._environment, process_group=0)
        except OSError as error:
            raise BuildFailed(f"{command[0]} cannot be run: {error}") from error
        self._running.append(compiler)
        with compiler:
            if self._ended:  # before it was in the list
                _kill(compiler)
            try:
                _, messages = compiler.communicate(timeout=_TIMEOUT_S)
            except subprocess.TimeoutExpired as error:
                _kill(compiler)
                raise BuildFailed(f"{command[0]} cannot be run: {error}") from error
        if compiler.returncode:
            raise BuildFailed(f"{' '.join(command)} failed:\n{messages.strip()[-4000:]}")


def _kill(compiler: subprocess.Popen[str]) -> None:
    """End a compiler that has not been waited for, with the processes that it started."""
    if compiler.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(compiler.pid, signal.SIGKILL)


def main() -> int:
    """Build beside the sources; return the exit code."""
    try:
        sys.stdout.write(f"{build()}\n")
    except BuildFailed as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
