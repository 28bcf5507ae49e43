"""Secrets stay where they are: not in shown settings, errors, logs or metrics."""

from __future__ import annotations

import re

import pytest

from gatekeeper.settings import GatekeeperSettings
from inference_server.settings import ServerSettings
from selfplay_worker.settings import WorkerSettings
from trainer.settings import TrainerSettings
from zerofleet.errors import ConfigurationError
from zerofleet.service.lifecycle import Service, serve_until_drained
from zerofleet.service.settings import describe, read_settings
from zerofleet.service.settings_sources import leaf_names
from zerofleet.supervisor.pages import fetch_page
from zerofleet.telemetry import metrics

CLASSES = (ServerSettings, GatekeeperSettings, TrainerSettings, WorkerSettings)
SECRET = "sesame0123456789sesame0123456789"
TELLING = re.compile(r"token|password|secret|credential|key", re.IGNORECASE)


def secret_environment(cls) -> dict[str, str]:
    """Every secret of a service, as the environment gives it."""
    values = {f"ZEROFLEET_{name.upper().replace('.', '__')}": SECRET for name in leaf_names(cls, secrets_only=True)}
    if "ZEROFLEET_TOKENS" in values:
        values["ZEROFLEET_TOKENS"] = f"operator: {SECRET}"
    if "stream_url" in cls.model_fields:
        values["ZEROFLEET_STREAM_URL"] = f"redis://worker:{SECRET}@redis:6379/0"
    return values


@pytest.mark.parametrize("cls", CLASSES)
def test_no_secret_is_in_the_settings_that_are_shown(cls):
    settings, origins = read_settings(cls, [], secret_environment(cls))
    shown = describe(settings, origins)
    assert SECRET not in shown
    assert "********" in shown
    assert SECRET not in repr(settings.model_dump(exclude={"stream_url"}))


@pytest.mark.parametrize("cls", CLASSES)
def test_no_secret_is_in_the_refusal_of_a_setting(cls):
    for name in secret_environment(cls):
        wrong = {**secret_environment(cls), name: f"\x00{SECRET}\n{SECRET}", "ZEROFLEET_METRICS_PORT": "many"}
        with pytest.raises(ConfigurationError) as refused:
            read_settings(cls, [], wrong)
        assert SECRET not in str(refused.value)


@pytest.mark.parametrize("cls", CLASSES)
def test_a_setting_that_holds_a_secret_can_be_given_as_a_file(cls, tmp_path):
    for name in leaf_names(cls, secrets_only=True):
        path = tmp_path / name
        path.write_text(f"operator: {SECRET}\n" if name == "tokens" else f"{SECRET}\n")
        settings, origins = read_settings(cls, [], {f"ZEROFLEET_{name.upper()}_FILE": str(path)})
        assert SECRET in getattr(settings, name).get_secret_value()
        assert origins[name] == "secret file"


@pytest.mark.parametrize("service", ["selfplay_worker", "inference_server", "trainer", "gatekeeper"])
def test_no_metric_has_a_label_that_could_hold_a_secret(service):
    page = metrics.exposition(service).decode()
    labels = {label for line in page.splitlines() for label in re.findall(r'[{,](\w+)="', line)}
    declared = {label for services, metric in metrics._table if service in services for label in metric._labelnames}
    assert {label for label in labels | declared if TELLING.search(label)} == set()


async def test_a_service_logs_none_of_its_secrets(capsys):
    async def main(service: Service) -> None:
        service.ready("127.0.0.1:1")
        assert await fetch_page(service.metrics_port) is None
        assert await fetch_page(service.metrics_port, "wrong") is None
        assert await fetch_page(service.metrics_port, SECRET) is not None
        raise ConfigurationError("the far side went away")

    settings, _ = read_settings(TrainerSettings, [], secret_environment(TrainerSettings))
    assert await serve_until_drained(main, settings) == 1
    out, err = capsys.readouterr()
    assert "the far side went away" in err
    assert SECRET not in out + err
