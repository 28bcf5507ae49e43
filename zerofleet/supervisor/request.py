"""What a person asks of `zerofleet run`, read and checked before anything starts."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from games.core import Game, make
from zerofleet.errors import ConfigurationError
from zerofleet.presets import Preset, preset

__all__ = ["SERVICES", "RunRequest", "parse_duration", "split_settings"]

SERVICES = ("inference_server", "gatekeeper", "trainer", "selfplay_worker")
"""Every service of a run, in the order of starting; draining goes the other way round."""

_UNITS_S = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
_DURATION = re.compile(
    r"(?:(?P<d>\d+(?:\.\d+)?)d)?(?:(?P<h>\d+(?:\.\d+)?)h)?(?:(?P<m>\d+(?:\.\d+)?)m)?(?:(?P<s>\d+(?:\.\d+)?)s)?"
)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One call of `zerofleet run`."""

    game: str
    run_dir: Path
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Game parameters that were given."""
    preset: str = "laptop"
    duration_s: float | None = None
    """None: until Ctrl-C."""
    workers: int = 1
    seed: int | None = None
    """Of a new run; a run that is continued keeps its own."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Settings by dotted name: a part of the preset (`search.simulations`) or a service (`trainer.log_level`)."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ConfigurationError(f"--workers {self.workers}: a run needs at least 1")

    def build_game(self) -> Game:
        """Return the game; raises `GameError`."""
        return make(self.game, **self.parameters)

    def build_preset(self) -> Preset:
        """Return the preset with the overrides of its parts; raises `ConfigurationError` naming the wrong one."""
        chosen = preset(self.build_game(), self.preset)
        for name, value in self.overrides.items():
            chosen = _override(chosen, name, value)
        return chosen

    def command(self, *, with_duration: bool = True) -> str:
        """Return the command line that asks for this again."""
        words = ["zerofleet", "run", self.game, "--preset", self.preset]
        for name, value in {**self.parameters, **self.overrides}.items():
            words += ["--set", f"{name}={value}"]
        words += ["--run-dir", str(self.run_dir)]
        if self.workers != 1:
            words += ["--workers", str(self.workers)]
        if with_duration and self.duration_s is not None:
            words += ["--for", f"{self.duration_s:g}s"]
        return shlex.join(words)


def parse_duration(text: str) -> float:
    """Return the seconds of `90s`, `30m`, `1h30m` or `2d`; raises `ConfigurationError` for anything else."""
    found = _DURATION.fullmatch(text.strip())
    parts = {unit: float(amount) for unit, amount in found.groupdict().items() if amount} if found else {}
    seconds = sum(amount * _UNITS_S[unit] for unit, amount in parts.items())
    if not parts or seconds <= 0:
        raise ConfigurationError(f"--for {text!r} is not a duration; write it as 90s, 30m, 1h30m or 2d")
    return seconds


def split_settings(items: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Sort `NAME=VALUE` items into game parameters (`rows=4`) and settings (`search.simulations=50`).

    Raises `ConfigurationError` for an item without a name or a value, or one that is given twice.
    """
    parameters: dict[str, str] = {}
    overrides: dict[str, str] = {}
    for item in items:
        name, equals, value = (part.strip() for part in item.partition("="))
        if not (name and equals and value):
            raise ConfigurationError(f"--set {item!r} is not NAME=VALUE, such as rows=4 or search.simulations=50")
        group = overrides if "." in name else parameters
        if name in group:
            raise ConfigurationError(f"--set {name} is given twice")
        group[name] = value
    return parameters, overrides


def _override(chosen: Preset, name: str, value: str) -> Preset:
    part, _, key = name.partition(".")
    if part in SERVICES:
        return chosen  # the service itself reads and checks it
    fields = {f"{p}.{k}" for p in Preset.model_fields if p != "name" for k in type(getattr(chosen, p)).model_fields}
    if name not in fields:
        near = difflib.get_close_matches(name, fields, n=1)
        hint = (
            f"did you mean {near[0]}?"
            if near
            else f"settings begin with {', '.join(sorted({f.split('.')[0] for f in fields}))}"
        )
        raise ConfigurationError(f"--set {name}={value}: there is no such setting; {hint}")
    before = getattr(chosen, part)
    try:
        after = type(before).model_validate({**before.model_dump(), key: value})
    except ValidationError as error:
        fault = error.errors()[0]
        raise ConfigurationError(f"--set {name}={value}: {fault['msg'].removeprefix('Value error, ')}") from error
    return chosen.model_copy(update={part: after})
