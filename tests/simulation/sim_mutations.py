"""Test of the simulation: which mutations of the code of the promises it finds, and with which seed.

Each mutation is applied to a copy of the tree (`tests/mutations`), in which a process forked from this one runs simulations
until one breaks a promise.
"""

from __future__ import annotations

import importlib
import os
import re
import runpy
import sys
import traceback
from pathlib import Path
from typing import NoReturn

FOLDER = Path(__file__).parent
BROKEN = re.compile(r"^seed (\d+) breaks a promise: (.*)$", re.MULTILINE)


def try_mutations(words: str, *, seeds: int, games: int) -> int:
    """Try the mutations chosen by `words`; print a row for each, and return 1 if one is not found."""
    sys.path.insert(0, str(FOLDER.parent / "mutations"))
    mutations, trial = importlib.import_module("mutations"), importlib.import_module("trial")
    for name in trial.PRELOADED:
        importlib.import_module(name)
    chosen = [one for one in mutations.chosen(mutations.load(), words) if not one.equivalent]
    missed = 0
    for mutation in chosen:
        copy = trial.Copy.make()
        try:
            trial.write(copy.place, mutation.mutated(mutations.ROOT))
            process = os.fork()
            if not process:
                _simulate(copy, ["--seeds", str(seeds), "--games", str(games), "--until-broken"])
            os.waitpid(process, 0)
            output = copy.output.read_text(errors="replace")
        finally:
            copy.remove()
        found = BROKEN.search(output)
        missed += found is None
        words_found = f"seed {found[1]}: {found[2]}" if found else _without(output, seeds)
        print(f"| {mutation.title} | {mutation.breaks} | {words_found} |", flush=True)
    print(f"\n{len(chosen) - missed} of {len(chosen)} mutations found")
    return 1 if missed else 0


def _without(output: str, seeds: int) -> str:
    """Return the end of a trial in which no seed broke a promise."""
    return f"not found by {seeds} seeds" if "0 seeds break a promise" in output else f"DID NOT RUN: {output[-300:]!r}"


def _simulate(copy: object, arguments: list[str]) -> NoReturn:
    """Become the process of a trial."""
    code = 3
    try:
        place: Path = copy.place  # type: ignore[attr-defined]
        with (place / "output.txt").open("wb") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        os.chdir(place)
        root = str(FOLDER.parents[1])
        sys.path[:] = [str(place), *(entry for entry in sys.path if entry not in (root, str(FOLDER)))]
        sys.argv = ["simulation", *arguments]
        runpy.run_path(str(place / "tests" / "simulation" / "__main__.py"), run_name="__main__")
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)
