"""What can be checked of the images and the compose file without an engine."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from zerofleet.runs import read_header
from zerofleet.streams import redis as redis_stream

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]


@pytest.fixture
def prepare():
    spec = importlib.util.spec_from_file_location("prepare", ROOT / "deploy/docker/prepare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_confined(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["init"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert set(service["deploy"]["resources"]["limits"]) == {"memory", "pids"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_published_port_is_on_loopback(name):
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


def test_only_those_who_play_and_train_share_a_network_with_redis():
    assert {name for name, s in SERVICES.items() if "stream" in s.get("networks", [])} == {
        "redis",
        "trainer",
        "selfplay_worker",
    }
    assert COMPOSE["networks"]["stream"]["internal"] is True


def test_every_image_runs_as_a_user_without_rights_and_has_a_health_check():
    text = (ROOT / "Dockerfile").read_text()
    final = {stage: base for base, stage in re.findall(r"^FROM (\S+) AS (\S+)", text, re.MULTILINE)}
    for service in SERVICES.values():
        target = service["build"]["target"]
        base = {"light": "service", "heavy": "service"}.get(final[target], target)
        stage = text.split(f" AS {base}\n")[1].split("\nFROM ")[0]
        assert "USER 10001:10001" in stage
        assert "HEALTHCHECK --interval" in stage


def test_the_light_images_are_told_every_package_but_torch_and_charts():
    command = [sys.executable, "deploy/docker/requirements.py", "--without", "torch", "matplotlib"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert any(line.startswith("numba") for line in lines)
    assert not any(line.startswith(("torch", "matplotlib")) for line in lines)
    wrong = subprocess.run([*command, "tensorflow"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "lists no tensorflow" in wrong.stderr


@pytest.mark.slow
@pytest.mark.parametrize("service", ["selfplay_worker", "gatekeeper"])
def test_a_light_service_starts_where_there_is_no_torch(service):
    code = "import importlib, sys; sys.modules |= {'torch': None, 'matplotlib': None}; importlib.import_module(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, f"{service}.__main__"], cwd=ROOT, check=True)


def test_prepare_keeps_what_it_drew_and_tells_redis_hashes_only(prepare, tmp_path, monkeypatch):
    monkeypatch.setenv("ZEROFLEET_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("ZEROFLEET_GAME", "tic_tac_toe")
    monkeypatch.setenv("ZEROFLEET_PRESET", "tiny")
    credentials = tmp_path / "credentials"

    def drawn():
        return {str(p.relative_to(credentials)): p.read_text() for p in credentials.rglob("*") if p.is_file()}

    assert prepare.main(credentials) == 0
    first = drawn()
    assert prepare.main(credentials) == 0
    assert drawn() == first
    assert set(first) == {"redis/users.acl", "redis/probe", "trainer/redis", "worker/redis", "control/token"}
    assert all(first[name].strip() not in first["redis/users.acl"] for name in first if name != "redis/users.acl")
    assert (read_header(tmp_path / "run").game, read_header(tmp_path / "run").preset) == ("tic_tac_toe", "tiny")
    monkeypatch.setenv("ZEROFLEET_GAME", "connect_four")
    assert prepare.main(credentials) == 2


def test_users_of_redis_have_the_documented_rights_and_ping(prepare):
    documented = ast.get_docstring(ast.parse(Path(redis_stream.__file__).read_text())).partition("Rights:")[2]
    worker, trainer = re.findall(r"^(~games.*)$", documented, re.MULTILINE)
    assert set(prepare.RIGHTS["worker"].split()) == {*worker.split(), "-@all", "+ping"}
    assert set(prepare.RIGHTS["trainer"].split()) == {*trainer.split(), "-@all", "+ping"}
