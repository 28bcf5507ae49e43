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
    found: dict[str, dict[str, tuple[str, list[str]]]] = {}  # by name and service: text, and lines of variables
    for cls in CLASSES:
        settings, _ = read_settings(cls, ["--run-dir", RUN], {})
        for name in cls.model_fields:
            about = " ".join(description(cls, name).split())
            found.setdefault(name, {})[cls.SERVICE] = about, variables(name, getattr(settings, name))
    sections: dict[str, list[str]] = {}
    for services in found.values():
        title = ", ".join(services) if len(services) < len(CLASSES) else "every service"
        sections.setdefault(title, []).extend(["", *setting(services)])
    parts = [HEAD]
    for title in sorted(sections, key=lambda text: (text != "every service", text)):
        parts += [f"\n# --- {title} ---", *sections[title]]
    return "\n".join(parts) + "\n"


def setting(services: dict[str, tuple[str, list[str]]]) -> list[str]:
    """Return the lines of a setting, with the text and default of each service where they differ."""
    _, lines = next(iter(services.values()))
    users: dict[str, list[str]] = {}
    for service, (about, _) in services.items():
        users.setdefault(about, []).append(service)
    texts = [about if len(users) == 1 else f"{', '.join(of)}: {about}" for about, of in users.items()]
    defaults = {service: own[0].partition("=")[2] for service, (_, own) in services.items() if own != lines}
    texts += [f"Default of {service}: {default}" for service, default in defaults.items()]
    return [line for text in texts for line in textwrap.wrap(text, 118, initial_indent="# ", subsequent_indent="# ")] + lines


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
