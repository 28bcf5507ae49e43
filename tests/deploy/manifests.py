"""Rendered definitions as tests look at them: by kind, by pod, by environment; and whether they are valid."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate

from gatekeeper.settings import GatekeeperSettings
from inference_server.settings import ServerSettings
from selfplay_worker.settings import WorkerSettings
from trainer.settings import TrainerSettings
from zerofleet.service.settings import ServiceSettings

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy/kubernetes"
OVERLAYS = sorted(path.parent for path in (KUBERNETES / "overlays").glob("*/kustomization.yaml"))
COMPONENTS = sorted(path.parent for path in (KUBERNETES / "components").glob("*/kustomization.yaml"))
SCALERS = ("autoscaling-hpa", "autoscaling-keda")
VERSIONS = ("1.32", "1.35", "1.37")
SERVICES: dict[str, type[ServiceSettings]] = {
    "inference-server": ServerSettings,
    "selfplay-worker": WorkerSettings,
    "trainer": TrainerSettings,
    "gatekeeper": GatekeeperSettings,
}

# Kinds that Kubernetes does not come with: their operators bring the schema, and here lies the part of it that is used.
SCHEMAS = {path.stem: json.loads(path.read_text()) for path in (Path(__file__).parent / "schemas").glob("*.json")}

Document = dict[str, Any]


def validate(document: Document, version: str) -> None:
    """Raise when a document is not what that version of Kubernetes, or its operator, takes."""
    _validate(json.dumps(document), version)


@functools.cache  # an overlay and its components have most documents in common, and each reads the schemas of all kinds
def _validate(text: str, version: str) -> None:
    document = json.loads(text)
    if (schema := SCHEMAS.get(document["kind"])) is not None:
        jsonschema.validate(document, schema)
    else:
        kubernetes_validate.validate(document, version, strict=True)


def of_kind(documents: list[Document], *kinds: str) -> dict[str, Document]:
    return {each["metadata"]["name"]: each for each in documents if each["kind"] in kinds}


def workloads(documents: list[Document]) -> dict[str, Document]:
    return of_kind(documents, "Deployment", "StatefulSet")


def pods(documents: list[Document]) -> dict[str, Document]:
    """The pod templates of everything that runs for ever."""
    return {name: each["spec"]["template"] for name, each in workloads(documents).items()}


def jobs(documents: list[Document]) -> dict[str, Document]:
    """The pod templates of jobs."""
    found = {name: each["spec"]["template"] for name, each in of_kind(documents, "Job").items()}
    timed = of_kind(documents, "CronJob")
    return found | {name: each["spec"]["jobTemplate"]["spec"]["template"] for name, each in timed.items()}


def container(documents: list[Document], workload: str) -> Document:
    (only,) = pods(documents)[workload]["spec"]["containers"]
    return dict(only)


def own_services(documents: list[Document]) -> Iterator[str]:
    """The services that are this project's own programs: in some overlays Triton stands for one."""
    return (name for name in SERVICES if container(documents, name)["image"].startswith("zerofleet/"))


def environment(documents: list[Document], workload: str) -> dict[str, str]:
    """Return the environment a pod gets; what a field of the pod or a Secret says stands for itself."""
    maps = of_kind(documents, "ConfigMap")
    variables = {}
    for source in container(documents, workload).get("envFrom", []):
        if "configMapRef" in source:
            variables |= maps[source["configMapRef"]["name"]]["data"]
    own = container(documents, workload).get("env", [])
    return variables | {each["name"]: each.get("value", "from-elsewhere") for each in own}


def addresses(documents: list[Document], workload: str) -> list[tuple[str, int]]:
    """Return what a pod connects to: Services with ports."""
    variables = environment(documents, workload)
    found = [variables.get(f"ZEROFLEET_{name}_ADDRESS") for name in ("INFERENCE", "GATEKEEPER", "CONTROL")]
    if url := variables.get("ZEROFLEET_STREAM_URL"):
        found.append(url.split("@")[1].split("/")[0])
    parts = [re.fullmatch(r"(?:dns:///)?([a-z-]+):(\d+)", address) for address in found if address]
    assert all(parts), found
    return [(part[1], int(part[2])) for part in parts if part]


def label_of(documents: list[Document], service: str) -> str:
    """Return the name that the pods behind a Service are labelled with."""
    return str(of_kind(documents, "Service")[service]["spec"]["selector"]["app.kubernetes.io/name"])
