"""The options on top of an overlay: valid, and asking for metrics, streams, volumes and commands that are there."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from manifests import (
    COMPONENTS,
    OVERLAYS,
    SCALERS,
    SERVICES,
    VERSIONS,
    addresses,
    container,
    environment,
    jobs,
    label_of,
    of_kind,
    pods,
    validate,
    workloads,
)
from typer.main import get_command

from ui.settings import UiSettings
from zerofleet.cli.app import app
from zerofleet.service.authority import SERVERS
from zerofleet.service.settings import read_settings
from zerofleet.storage.run_paths import RunPaths
from zerofleet.telemetry import metrics

OPTIONS = [path.name for path in COMPONENTS if path.name not in {"triton", "accelerators"}]
# Triton takes certificates by arguments of its own, and knows no roles.
OF_OUR_SERVER = {"tls", "tokens"}
CHOICES = [(path.name, option) for path in OVERLAYS for option in OPTIONS if path.name != "gpu" or option not in OF_OUR_SERVER]
WITHOUT_MODELS = [
    {
        "target": {"kind": "CronJob", "name": "backup"},
        "patch": """
- {op: test, path: /spec/jobTemplate/spec/template/spec/containers/0/volumeMounts/7/name, value: models}
- {op: remove, path: /spec/jobTemplate/spec/template/spec/containers/0/volumeMounts/7}
- {op: test, path: /spec/jobTemplate/spec/template/spec/volumes/5/name, value: models}
- {op: remove, path: /spec/jobTemplate/spec/template/spec/volumes/5}
""",
    }
]


@pytest.mark.parametrize(("overlay", "option"), CHOICES)
def test_every_component_is_valid_on_every_overlay(composed, overlay: str, option: str) -> None:
    patches = WITHOUT_MODELS if (overlay, option) == ("multi-node", "backup") else []
    documents = composed(overlay, option, patches=patches)
    for document in documents:
        validate(document, VERSIONS[-1])
    assert {each["metadata"]["namespace"] for each in documents} == {"zerofleet"}
    for job in jobs(documents).values():
        assert _claims(job) <= _known_claims(documents)


@pytest.mark.parametrize("overlay", ["local", "multi-node"])
def test_with_tls_every_service_has_its_own_certificate_and_probes_without_one(composed, overlay: str) -> None:
    documents = composed(overlay, "tls")
    secrets = set()
    for name, cls in SERVICES.items():
        variables = environment(documents, name)
        each = container(documents, name)
        mounts = {mount["name"]: mount["mountPath"] for mount in each["volumeMounts"]}
        assert variables["ZEROFLEET_TLS_IDENTITY"] == mounts["tls"]
        assert Path(variables["ZEROFLEET_TLS_CA"]) == Path(mounts["tls"]) / "ca.crt"
        secrets |= {
            volume["secret"]["secretName"] for volume in pods(documents)[name]["spec"]["volumes"] if volume["name"] == "tls"
        }
        assert {"tls_ca", "tls_identity"} <= set(cls.model_fields)
        for probe, path in (("startupProbe", None), ("readinessProbe", "/readyz"), ("livenessProbe", "/livez")):
            assert each[probe]["httpGet"]["port"] == "metrics"
            assert path in (None, each[probe]["httpGet"]["path"])
    assert secrets == {f"zerofleet-tls-{name}" for name in SERVICES}
    # The names by which a server is reached stand in its certificate.
    for name in ("selfplay-worker", "trainer", "gatekeeper"):
        for service, _ in addresses(documents, name):
            assert service == "redis" or service in SERVERS[label_of(documents, service).replace("-", "_")]


@pytest.mark.parametrize("overlay", ["local", "multi-node"])
def test_with_tokens_servers_mount_all_of_them_and_a_client_only_its_own(composed, overlay: str) -> None:
    documents = composed(overlay, "tokens")
    seen = {}
    for name, cls in SERVICES.items():
        variables = environment(documents, name)
        mounts = {mount["name"]: mount["mountPath"] for mount in container(documents, name)["volumeMounts"]}
        (roles,) = (each["secret"] for each in pods(documents)[name]["spec"]["volumes"] if each["name"] == "roles")
        (shown,) = roles["items"]
        setting = "tokens" if name in {"inference-server", "gatekeeper"} else "token"
        assert variables[f"ZEROFLEET_{setting.upper()}_FILE"] == f"{mounts['roles']}/{shown['path']}"
        assert setting in cls.model_fields
        assert roles["secretName"] == "zerofleet-roles"
        seen[name] = shown["key"]
    assert seen == {"inference-server": "tokens", "gatekeeper": "tokens", "trainer": "trainer", "selfplay-worker": "worker"}


@pytest.mark.parametrize("version", VERSIONS)
def test_all_options_together_are_valid_for_three_versions_of_kubernetes(composed, version: str) -> None:
    for scaler in SCALERS:
        for document in composed("local", *(set(OPTIONS) - set(SCALERS)), scaler):
            validate(document, version)


@pytest.mark.parametrize("overlay", ["local", "multi-node"])
def test_the_inference_server_of_any_overlay_may_be_given_gpus(composed, overlay: str) -> None:
    components = ["accelerators"] if overlay == "local" else []
    for workload in (workloads(composed(overlay, *components))[name] for name in ("inference-server", "trainer")):
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
        assert {"name": "ZEROFLEET_DEVICE", "value": "cuda"} in container["env"]


@pytest.mark.parametrize(
    ("kind", "way", "value"),
    [
        ("ScaledObject", ["spec", "maxReplicas"], 3),
        ("ScaledObject", ["spec", "triggers"], []),
        ("ScaledObject", ["spec", "advanced", "scalingModifiers", "metricType"], "Utilisation"),
        ("TriggerAuthentication", ["spec", "secretTargetRef", 0, "secret"], "x"),
        ("ServiceMonitor", ["spec", "endpoints", 0, "interval"], "15 seconds"),
        ("ServiceMonitor", ["spec", "selectors"], {}),
        ("PrometheusRule", ["spec", "groups", 0, "rules", 0, "for"], "two minutes"),
        ("PrometheusRule", ["spec", "groups", 0, "rules", 0, "severity"], "critical"),
    ],
)
def test_invalid_objects_of_other_operators_are_rejected(composed, kind: str, way: list[Any], value: Any) -> None:
    (document,) = (each for each in composed("local", "service-monitor", "autoscaling-keda") if each["kind"] == kind)
    place = document
    for key in way[:-1]:
        place = place[key]
    place[way[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        validate(document, VERSIONS[0])


def test_the_service_monitor_selects_each_service_with_metrics_once_under_its_job_name(composed) -> None:
    documents = composed("local", "service-monitor")
    monitor = of_kind(documents, "ServiceMonitor")["zerofleet"]["spec"]
    services = of_kind(documents, "Service").values()
    wanted = monitor["selector"]["matchLabels"].items()
    ports = {endpoint["port"] for endpoint in monitor["endpoints"]}
    scraped = [
        each["spec"]["selector"]["app.kubernetes.io/name"]
        for each in services
        if wanted <= each["metadata"]["labels"].items() and ports & {port["name"] for port in each["spec"]["ports"]}
    ]
    assert sorted(scraped) == ["gatekeeper", "inference-server", "selfplay-worker", "trainer"]
    # What the operator makes of the label comes first, then these; Prometheus holds a pattern against the whole value.
    assert monitor["jobLabel"] == "app.kubernetes.io/name"
    (relabel,) = monitor["endpoints"][0]["relabelings"]
    assert (relabel["sourceLabels"], relabel["targetLabel"]) == (["job"], "job")
    found = {name: re.fullmatch(relabel["regex"], name) for name in scraped}
    template = re.sub(r"\$\{(\d)\}", r"\\\1", relabel["replacement"])
    assert {match.expand(template) if match else name for name, match in found.items()} == set(metrics.EVERY)


def test_a_backup_mounts_the_whole_run_directory_read_only(composed) -> None:
    (pod,) = jobs(composed("local", "backup")).values()
    (container,) = pod["spec"]["containers"]
    command = container["command"]
    _parse(command)
    paths = RunPaths(Path(command[2]))
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    for part in (paths.header, paths.replay, paths.metrics, paths.gatekeeper, paths.models):
        assert mounts[str(part)]["readOnly"] is True
        assert mounts[str(part)].get("subPath", part.name) == part.name
    assert "readOnly" not in mounts[command[command.index("--to") + 1]]


def test_the_pages_mount_the_run_directory_read_only_and_require_a_token(composed, tmp_path: Path) -> None:
    documents = composed("local", "ui")
    variables, each = environment(documents, "ui"), container(documents, "ui")
    mounts = {mount["mountPath"]: mount for mount in each["volumeMounts"]}
    paths = RunPaths(Path(variables["ZEROFLEET_RUN_DIR"]))
    for part in (paths.header, paths.replay, paths.metrics, paths.gatekeeper, paths.models):
        assert mounts[str(part)]["readOnly"] is True
        assert mounts[str(part)].get("subPath", part.name) == part.name
    assert variables["ZEROFLEET_MODEL_STORE"] == str(paths.models)
    assert "readOnly" not in mounts[str(Path(variables["ZEROFLEET_JOURNAL_CACHE"]).parent)]
    assert Path(variables["ZEROFLEET_PAGE_TOKEN_FILE"]).parent == Path("/run/credentials")
    assert mounts["/run/credentials"]["readOnly"] is True
    pod = pods(documents)["ui"]
    assert _claims(pod) <= _known_claims(documents)
    (tmp_path / "token").write_text("a token for this test")
    variables["ZEROFLEET_PAGE_TOKEN_FILE"] = str(tmp_path / "token")
    settings, _ = read_settings(UiSettings, [], variables)
    assert (settings.page_host_names, settings.services_elsewhere) == ("localhost", True)
    assert settings.page_port in {port["containerPort"] for port in each["ports"]}
    assert "ui" not in of_kind(documents, "Service")  # reached by a forwarded port alone
    safe = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert each["securityContext"] == safe
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize("reader", ["ui", "backup"])
def test_pages_and_backup_wait_for_every_part_of_the_run_that_they_mount(composed, tmp_path: Path, reader: str) -> None:
    """A missing subPath would become a folder in the volume of the trainer, which does not start with a folder run.json."""
    documents = composed("local", reader)
    pod = (pods(documents) | jobs(documents))[reader]["spec"]
    (waiting,), (own,) = pod["initContainers"], pod["containers"]
    assert (waiting["image"], waiting["securityContext"]) == (own["image"], own["securityContext"])
    roots = {mount["name"]: mount["mountPath"] for mount in waiting["volumeMounts"]}
    parts = [tmp_path / f".{roots[m['name']]}" / m["subPath"] for m in own["volumeMounts"] if "subPath" in m]
    assert len(parts) == 4
    for part in parts:
        part.parent.mkdir(exist_ok=True)
    # In place of each pause one part appears, the header last; the wait ends after the last of them.
    appearing = [f"mkdir {part}" for part in parts if part.suffix != ".json"]
    appearing += [f"mv {part}.new {part}" for part in parts if part.suffix == ".json"]
    for part in parts:
        part.with_name(f"{part.name}.new").touch()
    pause = tmp_path / "sleep"
    pause.write_text("#!/bin/sh\n" + "".join(f"[ -e {words.split()[-1]} ] || exec {words}\n" for words in appearing))
    pause.chmod(0o755)
    shell, flag, script = waiting["command"]
    for root in roots.values():
        script = script.replace(f" {root}/", f" {tmp_path}{root}/")
    subprocess.run([shell, flag, f"PATH={tmp_path}:$PATH\n{script}"], check=True, timeout=60)
    assert all(part.exists() for part in parts)


def test_a_restore_is_suspended_and_mounts_the_volumes_of_the_services(composed, render) -> None:
    documents = [*composed("local", "backup"), *render("restore")]
    job = of_kind(documents, "Job")["restore"]
    assert job["spec"]["suspend"] is True
    (container,) = job["spec"]["template"]["spec"]["containers"]
    words = shlex.split(
        container["command"][2].replace("${OPTIONS:-}", "--part replay").replace("$BACKUP", "20261121T131440123Z")
    )
    _parse(words[1:])
    paths = RunPaths(Path(words[4]))
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert mounts[str(paths.root)]["name"] == "trainer"  # a run directory: it has replay and metrics itself
    assert mounts[str(paths.gatekeeper)]["subPath"] == paths.gatekeeper.name
    assert str(paths.models) in mounts
    assert _claims(job["spec"]["template"]) <= _known_claims(documents)
    for name, claim in of_kind(render("restore"), "PersistentVolumeClaim").items():
        assert claim["spec"] == _templates(documents)[name]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_restore_is_valid_for_three_versions_of_kubernetes(render, version: str) -> None:
    for document in render("restore"):
        validate(document, version)


def test_jobs_are_confined_like_services(composed, render) -> None:
    for pod in (*jobs(composed("local", "backup")).values(), *jobs(render("restore")).values()):
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["spec"]["automountServiceAccountToken"] is False
        (container,) = pod["spec"]["containers"]
        safe = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        assert container["securityContext"] == safe
        assert "memory" in container["resources"]["limits"]


def test_a_new_release_is_a_tag_in_the_users_overlay(composed) -> None:
    services = ("inference_server", "gatekeeper", "trainer", "selfplay_worker")
    images = [{"name": f"zerofleet/{name}", "newName": f"registry.example/{name}", "newTag": "0.2.0"} for name in services]
    documents = composed("local", "backup", images=images)
    used = {container["image"] for pod in workloads(documents).values() for container in _containers(pod["spec"]["template"])}
    used |= {container["image"] for pod in jobs(documents).values() for container in _containers(pod)}
    assert used == {f"registry.example/{name}:0.2.0" for name in services} | {"redis:7-bookworm"}


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return list(pod["spec"]["containers"])


def _claims(pod: dict[str, Any]) -> set[str]:
    volumes = pod["spec"]["volumes"]
    return {volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume}


def _templates(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the claims are like that StatefulSets make for their first pods."""
    return {
        f"{claim['metadata']['name']}-{name}-0": claim["spec"]
        for name, each in of_kind(documents, "StatefulSet").items()
        for claim in each["spec"].get("volumeClaimTemplates", [])
    }


def _known_claims(documents: list[dict[str, Any]]) -> set[str]:
    return set(of_kind(documents, "PersistentVolumeClaim")) | set(_templates(documents))


def _parse(words: list[str]) -> None:
    """Parse a command line of `zerofleet` without running it; raises what a wrong one raises."""
    group = get_command(app)
    context = group.make_context("zerofleet", words[1:] if words[0] == "zerofleet" else words)
    name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
    command.make_context(name, list(rest))
