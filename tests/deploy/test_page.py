"""What docs/kubernetes.md says to do, done as far as it goes without a cluster."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

import pytest
import redis
import yaml
from manifests import ROOT, VERSIONS, Document, container, environment, jobs, of_kind, pods, validate, workloads
from redis_server import serving

PAGE = (ROOT / "docs/kubernetes.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def _block(*words: str) -> str:
    """Return the one block with all these words, without prompts."""
    (found,) = (text for _, text in BLOCKS if all(word in text for word in words))
    return re.sub(r"^\$ ", "", found, flags=re.MULTILINE)


def _run(script: str, directory: Path) -> None:
    subprocess.run(["bash", "-euc", script], cwd=directory, check=True)


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    """The folder that the page says how to make."""
    _run(_block("users.acl << END"), tmp_path)
    return tmp_path / "credentials"


def test_the_commands_make_every_key_of_the_secrets_and_no_two_alike(credentials: Path) -> None:
    secrets = {name: (credentials / name).read_text() for name in ("trainer", "worker", "probe", "scaler", "token")}
    assert len(set(secrets.values())) == len(secrets)
    assert all(re.fullmatch(r"[0-9a-f]{48}", secret) for secret in secrets.values())
    assert all(file.stat().st_mode & 0o077 == 0 for file in credentials.iterdir())
    asked = set(re.findall(r"--from-file=([\w.]+)", _block("create secret generic zerofleet-redis")))
    assert asked == {file.name for file in credentials.iterdir()}


def test_the_users_have_the_rights_that_a_cluster_of_compose_gives_them(credentials: Path, prepare) -> None:
    wanted = prepare.users({user: (credentials / user).read_text() for user in prepare.RIGHTS}).splitlines()
    made = (credentials / "users.acl").read_text().splitlines()
    (scaler,) = set(made) - set(wanted)
    assert set(wanted) < set(made)
    assert scaler.startswith(f"user scaler on #{hashlib.sha256((credentials / 'scaler').read_bytes()).hexdigest()} ")


def test_redis_accepts_the_users_and_their_passwords(credentials: Path, tmp_path: Path) -> None:
    (tmp_path / "redis").mkdir()
    with serving(tmp_path / "redis", (credentials / "users.acl").read_text()) as socket:
        for user in ("trainer", "worker", "probe", "scaler"):
            password = (credentials / user).read_text()
            with redis.Redis(unix_socket_path=str(socket), username=user, password=password) as client:
                assert client.ping()
        with redis.Redis(unix_socket_path=str(socket), username="scaler", password=password) as scaler:
            assert scaler.xlen("games") == 0  # its password is the last one
            with pytest.raises(redis.exceptions.NoPermissionError):
                scaler.xadd("games", {"uid": "u"})


def test_the_commands_for_tokens_keep_the_passwords_and_name_every_role(credentials: Path) -> None:
    before = {file.name: file.read_bytes() for file in credentials.iterdir()}
    script = re.sub(r"^kubectl .*\n", "", _block("evaluator", "> tokens"), flags=re.MULTILINE)
    _run(script, credentials.parent)
    assert {name: (credentials / name).read_bytes() for name in before} == before
    roles = credentials / "roles"
    named = dict(line.split(": ") for line in (roles / "tokens").read_text().splitlines())
    assert named["operator"] == (credentials / "token").read_text()
    assert {name: (roles / name).read_text() for name in named if name != "operator"}.items() < named.items()
    assert set(named) == {"operator", "trainer", "worker", "evaluator"}
    assert len(set(named.values())) == 4


def test_no_service_starts_between_the_empty_volumes_and_the_end_of_a_restore() -> None:
    lines = _block("delete pvc", "condition=complete").splitlines()
    begin = next(number for number, line in enumerate(lines) if "delete pvc" in line)
    end = next(number for number, line in enumerate(lines) if "condition=complete" in line)
    applied = [line for line in lines[begin:end] if "apply" in line]
    assert applied == [
        "kubectl apply -k my-overlay --selector app.kubernetes.io/component=volume",
        "kubectl apply -k deploy/kubernetes/restore",
    ]
    assert not any("scale" in line for line in lines[begin:])
    assert "kubectl apply -k my-overlay" in lines[end:]


def test_a_restore_first_applies_only_its_claims(composed, render) -> None:
    documents = composed("local", "backup")
    chosen = [each for each in documents if each["metadata"].get("labels", {}).get("app.kubernetes.io/component") == "volume"]
    assert {each["kind"] for each in chosen} == {"PersistentVolumeClaim"}
    restore = render("restore")
    made = {each["metadata"]["name"] for each in chosen} | set(of_kind(restore, "PersistentVolumeClaim"))
    volumes = of_kind(restore, "Job")["restore"]["spec"]["template"]["spec"]["volumes"]
    assert {volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume} == made
    assert {each["kind"] for each in restore} == {"PersistentVolumeClaim", "Job"}


def test_the_pages_with_an_object_store_mount_no_claim_of_models_and_reach_the_bucket(composed) -> None:
    patches = yaml.safe_load(_block("name: ui}", "secretRef"))["patches"]
    documents = composed("multi-node", "ui", patches=patches)
    variables, own = environment(documents, "ui"), container(documents, "ui")
    volumes = {volume["name"]: volume for volume in pods(documents)["ui"]["spec"]["volumes"]}
    assert volumes.keys() == {mount["name"] for mount in own["volumeMounts"]}
    assert "models" not in volumes
    assert variables["ZEROFLEET_MODEL_STORE"] == environment(documents, "inference-server")["ZEROFLEET_MODEL_STORE"]
    assert container(documents, "inference-server")["envFrom"] == own["envFrom"]
    cache, size = Path(variables["ZEROFLEET_MODEL_CACHE"]), int(variables["ZEROFLEET_MODEL_CACHE_BYTES"])
    assert {"name": "cache", "mountPath": str(cache.parent)} in own["volumeMounts"]
    assert volumes["cache"]["emptyDir"] == {"sizeLimit": f"{2 * size >> 20}Mi"}
    (who,) = of_kind(documents, "NetworkPolicy")["to-object-store"]["spec"]["podSelector"]["matchExpressions"]
    assert "ui" in who["values"]


def test_the_claims_are_deleted_when_no_pod_names_them_any_more(composed) -> None:
    """A pod that has ended still protects its claims, and the history of the backups has some."""
    documents = composed("local", "backup")
    lines = _block("delete pvc", "condition=complete").splitlines()
    (number,) = (number for number, line in enumerate(lines) if "delete pvc" in line)
    ended = " ".join(lines[:number])
    for workload in workloads(documents):
        if _claims(documents, workload) & set(lines[number].split()):
            assert re.search(rf"scale .*\w/{workload} .*--replicas 0", ended)
    (label,) = re.findall(r"delete pod -l (\S+)", ended)
    assert dict([label.split("=")]).items() <= jobs(documents)["backup"]["metadata"]["labels"].items()


def test_the_commands_build_every_image_of_the_manifests(composed) -> None:
    built = _block("compose.gpu.yml build")
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    images = {
        each["image"].partition(":")[0]
        for each in services.values()
        if "build" in each and all(f"--profile {profile} build" in built for profile in each.get("profiles", []))
    }
    documents = composed("local", "ui", "backup")
    used = {each["image"] for pod in (pods(documents) | jobs(documents)).values() for each in pod["spec"]["containers"]}
    assert {image.partition(":")[0] for image in used if image.startswith("zerofleet/")} <= images


def test_commands_name_all_of_their_objects_in_one_form() -> None:
    """kubectl refuses `delete pvc one pod/two`: a type is a word of its own for all names, or a part of each."""
    commands = re.findall(r"kubectl -n zerofleet (?:delete|scale) ((?:[\w./-]+ ?)+)", PAGE)
    named = [[word for word in command.split(" -")[0].split() if word] for command in commands]
    assert ["pvc/data-redis-0", "pod/redis-0"] in named
    assert [words for words in named if len({"/" in word for word in words}) > 1] == []


@pytest.mark.parametrize("overlay", ["gpu", "multi-node"])
def test_a_replica_with_a_gpu_may_stop_before_its_successor_starts(composed, overlay: str) -> None:
    documents = composed(overlay, patches=yaml.safe_load(_block("maxSurge"))["patches"])
    server = of_kind(documents, "Deployment")["inference-server"]
    validate(server, VERSIONS[-1])
    assert server["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}
    assert "nvidia.com/gpu" in container(documents, "inference-server")["resources"]["limits"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_policy_for_a_trace_collector_is_valid(version: str) -> None:
    policy = yaml.safe_load(_block("to-trace-collector"))
    validate(policy, version)
    assert policy["spec"]["policyTypes"] == ["Egress"]


def _claims(documents: list[Document], workload: str) -> set[str]:
    """Return the claims that the first pod of a workload names."""
    own = workloads(documents)[workload]["spec"]
    named = {
        each["persistentVolumeClaim"]["claimName"]
        for each in own["template"]["spec"]["volumes"]
        if "persistentVolumeClaim" in each
    }
    return named | {f"{each['metadata']['name']}-{workload}-0" for each in own.get("volumeClaimTemplates", [])}
