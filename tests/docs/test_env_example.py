"""`.env.example` lists every setting of every service with its default.

To regenerate it after a change of a setting: `python tests/docs/test_env_example.py`.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from gatekeeper.settings import GatekeeperSettings
from inference_server.settings import ServerSettings
from selfplay_worker.settings import WorkerSettings
from trainer.settings import TrainerSettings
from ui.settings import UiSettings
from zerofleet.presets.descriptions import description
from zerofleet.service.settings import ENVIRONMENT_PREFIX, ServiceSettings, read_settings

RUN = "/RUN"  # stands for the run directory, `run`, in whatever follows from it
FILE = Path(__file__).parents[2] / ".env.example"
CLASSES: tuple[type[ServiceSettings], ...] = (ServerSettings, GatekeeperSettings, TrainerSettings, WorkerSettings, UiSettings)
HEAD = """\
# Settings of the services, as environment variables, with their defaults.
# `python -m trainer --print-config` prints the present values and the source of each; --help explains them.
# The same names are options: ZEROFLEET_SEARCH__SIMULATIONS is --search.simulations. Secrets can be read from files:
# ZEROFLEET_TOKEN_FILE=/run/secrets/token. Settings in groups (SEARCH__, TRAIN__ ...) default to the preset's values.
"""


def expected() -> str:
    users: dict[str, list[str]] = {}
    for cls in CLASSES:
        for name in cls.model_fields:
            users.setdefault(name, []).append(cls.SERVICE)
    sections: dict[str, list[str]] = {}
    for cls in CLASSES:
        settings, _ = read_settings(cls, ["--run-dir", RUN], {})
        for name in cls.model_fields:
            title = ", ".join(users[name]) if len(users[name]) < len(CLASSES) else "every service"
            lines = sections.setdefault(title, [])
            if users[name][0] == cls.SERVICE:
                about = " ".join(description(cls, name).split())
                lines += ["", *textwrap.wrap(about, 118, initial_indent="# ", subsequent_indent="# ")]
                lines += variables(name, getattr(settings, name))
    parts = [HEAD]
    for title in sorted(sections, key=lambda text: (text != "every service", text)):
        parts += [f"\n# --- {title} ---", *sections[title]]
    return "\n".join(parts) + "\n"


def variables(name: str, value: Any) -> list[str]:
    if isinstance(value, BaseModel):
        prefix = f"{ENVIRONMENT_PREFIX}{name.upper()}__"
        return [f"# {prefix}{key.upper()}=" for key in type(value).model_fields]
    return [f"# {ENVIRONMENT_PREFIX}{name.upper()}={text(value)}"]


def text(value: Any) -> str:
    if value is None or value == {} or isinstance(value, SecretStr):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).replace(RUN, "run")


def test_the_example_lists_every_setting_with_its_default():
    assert FILE.read_text() == expected(), "settings have changed: run python tests/docs/test_env_example.py"


if __name__ == "__main__":
    FILE.write_text(expected())
