"""Settings with which a run began: its experiment file, and where it differs from the preset."""

from __future__ import annotations

from pydantic import BaseModel

from zerofleet.errors import ConfigurationError
from zerofleet.library.values import Value
from zerofleet.presets import GateSettings, preset
from zerofleet.presets.experiment import PARTS, SERVICES, Experiment, part_of, read_experiment, setting_text
from zerofleet.storage.run_paths import RunPaths

__all__ = ["RunSettings", "Setting", "gate_settings", "run_settings"]


class Setting(Value):
    """Setting that differs from the preset."""

    name: str
    """Dotted name, such as `search.simulations`."""
    value: str
    preset_value: str | None
    """Value of the preset; None for a setting of one service, and for the devices."""


class RunSettings(Value):
    """Settings of a run."""

    preset: str
    seed: int | None
    changed: tuple[Setting, ...]
    """Those that differ from the preset, in the order of its parts."""
    fault: str
    """Reason why they are unknown; empty where they are known."""


def run_settings(paths: RunPaths) -> RunSettings:
    """Return the settings in the experiment file of a run, which the command line writes once, when it begins."""
    try:
        found = read_experiment(paths.experiment)
        changed = _changed(found)
    except ConfigurationError as error:
        return RunSettings(preset="", seed=None, changed=(), fault=str(error))
    return RunSettings(preset=found.preset, seed=found.seed, changed=changed, fault="")


def gate_settings(paths: RunPaths) -> GateSettings:
    """Return the settings of the gate in the experiment file of a run. Raises `ConfigurationError` without a readable one."""
    return read_experiment(paths.experiment).build_preset().gate


def _changed(found: Experiment) -> tuple[Setting, ...]:
    base, chosen = preset(found.build_game(), found.preset), found.build_preset()
    parts = [*PARTS, *([] if chosen.own_learner is None else [chosen.train.learner])]
    changed = [one for part in parts for one in _of_part(part, part_of(base, part), part_of(chosen, part))]
    of_services = (
        Setting(name=name, value=value, preset_value=None)
        for name, value in found.settings.items()
        if name.partition(".")[0] in SERVICES
    )
    devices = [Setting(name="devices", value=",".join(found.devices), preset_value=None)] if found.devices else []
    return (*changed, *devices, *of_services)


def _of_part(part: str, base: BaseModel, chosen: BaseModel) -> list[Setting]:
    before, after = base.model_dump(mode="json"), chosen.model_dump(mode="json")
    return [
        Setting(name=f"{part}.{key}", value=setting_text(value), preset_value=setting_text(before[key]))
        for key, value in after.items()
        if value != before[key]
    ]
