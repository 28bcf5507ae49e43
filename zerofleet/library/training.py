"""Training from Python: the services of `zerofleet run`, started from a prompt or a notebook."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent import futures
from pathlib import Path
from types import TracebackType

import numpy as np
from rich.console import Console

from games.core import Game, make
from games.positions import changed_parameters
from zerofleet.errors import ConfigurationError, ZerofleetError
from zerofleet.library import background
from zerofleet.library.runs import Run
from zerofleet.presets.experiment import kept_experiment
from zerofleet.storage.run_lookup import default_directory
from zerofleet.storage.run_paths import RunPaths
from zerofleet.supervisor import RunRequest, split_settings
from zerofleet.supervisor.summary import summary
from zerofleet.supervisor.supervisor import Supervisor, supervising

__all__ = ["TrainingRun", "train"]


def train(
    game: str | Game,
    *,
    preset: str = "laptop",
    minutes: float | None = None,
    run_dir: str | Path | None = None,
    seed: int | None = None,
    workers: int = 1,
    settings: Mapping[str, object] | None = None,
    devices: Sequence[str] | None = None,
    progress: bool = True,
) -> TrainingRun:
    """Start to learn a game, or go on where a run in the same directory stopped, and return at once.

    Args:
        game: Name of the game, or a game from `games.make`.
        preset: Size of network, search and batches: `tiny`, `laptop` or `gpu`.
        minutes: Minutes until the run ends by itself; None: until it is stopped.
        run_dir: Run directory, by default below `runs/` as for `zerofleet run`.
        seed: Seed of a new run; a run that is continued keeps its own.
        workers: Self-play processes; a run on several devices has at least one for each.
        settings: Parameters of the game (`"rows": 4`), numbers of the preset (`"search.simulations": 50`) and settings of
            services (`"trainer.log_level": "debug"`), under the names of `--set`. A run that is continued keeps its own
            numbers and settings, apart from these.
        devices: Devices of inference, such as `["cuda:0", "cuda:1"]`, with one server each; None: those of the run that is
            continued, else one server.
        progress: Whether progress is shown: a page in a terminal, lines at a prompt and elsewhere.

    Raises:
        GameError: No such game, or a parameter is out of range.
        ZerofleetError: `ConfigurationError` for a setting, `RunDirectoryError` for a directory that is in use or of another
            game; nothing was started.
    """
    if minutes is not None and not 0.0 < minutes < math.inf:
        raise ConfigurationError(f"minutes={minutes} is out of range; want a finite number above 0, or None")
    words = [f"{name}={_text(name, value)}" for name, value in (settings or {}).items()]
    parameters, overrides = split_settings(words)
    name, given = (game, {}) if isinstance(game, str) else (game.spec().name, changed_parameters(game))
    built = make(name, **{**given, **parameters})
    root = default_directory(built, preset) if run_dir is None else Path(run_dir)
    own = kept_experiment(root)
    continued = own if own is not None and own.game == name else None  # a run of another game is refused
    kept = () if continued is None else continued.devices
    if isinstance(devices, str):
        raise ConfigurationError(f"devices={devices!r} is one text; want a list, such as [{devices!r}]")
    chosen = kept if devices is None else tuple(devices)
    request = RunRequest(
        game=name,
        run_dir=root,
        parameters=changed_parameters(built),
        preset=preset,
        duration_s=None if minutes is None else 60.0 * minutes,
        workers=max(workers, len(chosen)),
        seed=seed,
        overrides=overrides,
        configured={} if continued is None else continued.settings,
        secrets=() if continued is None else continued.secrets,
        devices=chosen,
    )
    with contextlib.ExitStack() as stack:
        console = _console() if progress else _silent(stack)
        supervisor = stack.enter_context(supervising(request, console))
        return TrainingRun(request, supervisor, console, stack.pop_all())


class TrainingRun(Run):
    """A run under way. Leaving its `with` stops it; models, games and metrics can be asked for before and after."""

    def __init__(self, request: RunRequest, supervisor: Supervisor, console: Console, held: contextlib.ExitStack) -> None:
        """`held` is closed when the services have ended."""
        super().__init__(RunPaths(request.run_dir))
        self._supervisor = supervisor
        background.at_exit(supervisor, self._drain)
        self._ended: futures.Future[None] = background.start(_supervise(request, supervisor, console, held))

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the run ends, for `timeout_s` at most; return whether it has.

        Raises `ZerofleetError` when a service could not be kept running, and in a forked process, whose parent has the run.
        """
        if not self._ended.done():
            background.require_usable()
        done, _ = futures.wait([self._ended], timeout_s)
        for ended in done:
            ended.result()
        return bool(done)

    def stop(self) -> None:
        """Store the finished games, give up those in progress, and end the services; an interrupt meanwhile kills them.

        Harmless when the run has ended. Raises `ZerofleetError` when a service could not be kept running.
        """
        try:
            if not self._ended.done():
                background.wait_for(self._ask_to_stop())
            self._ended.result()
        except KeyboardInterrupt:
            background.wait_for(self._ask_to_stop())
            self._ended.result()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.stop()
        except ZerofleetError:
            if error is None:
                raise
        finally:
            self.close()

    async def _ask_to_stop(self) -> None:
        self._supervisor.stop("stopped")

    async def _drain(self) -> None:
        """Stop at the end of the process. Cancellation: the services end with the process."""
        self._supervisor.stop("the process ends")
        await asyncio.wrap_future(self._ended)


def _text(name: str, value: object) -> str:
    """Return the text of a setting, as `--set` takes it. Raises `ConfigurationError` for a value without one."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, default=_plain)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"settings[{name!r}]={value!r}: {error}; want a text, a number, a truth value or a list"
        ) from error


def _plain(value: object) -> object:
    """Return the plain value of a number or an array of numpy; raises `TypeError` for others."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"it is a {type(value).__name__}")


def _console() -> Console:
    """Return the console of standard output; a page would hide the prompt of an interpreter, and a notebook cannot show one."""
    return Console(highlight=False, force_jupyter=False, force_terminal=False if hasattr(sys, "ps1") else None)


def _silent(stack: contextlib.ExitStack) -> Console:
    return Console(file=stack.enter_context(Path(os.devnull).open("w")), force_terminal=False)


async def _supervise(request: RunRequest, supervisor: Supervisor, console: Console, held: contextlib.ExitStack) -> None:
    """Keep the services going to the end of the run. Raises `GaveUp`. Cancellation: every service is killed."""
    with held:
        try:
            failure, last = await supervisor.run()
        finally:
            background.not_at_exit(supervisor)
        with contextlib.suppress(OSError, SystemExit):  # the terminal or the pipe was closed
            text = summary(request, last, failure, was_compiling=supervisor.was_compiling, unready=supervisor.unready)
            console.print(f"\n{text}\n", markup=False, highlight=False, soft_wrap=True)
        if failure is not None:
            raise failure
