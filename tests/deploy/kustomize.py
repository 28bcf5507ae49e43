"""A renderer for the part of kustomize that `deploy/kubernetes` uses: resources, namespace, and JSON patches by kind and name.

Anything else in a kustomization is refused, so that a test never passes over what it cannot render.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

HEADER = {"apiVersion", "kind"}
KNOWN = HEADER | {"resources", "namespace", "patches"}

Document = dict[str, Any]


def render(folder: Path) -> list[Document]:
    """Return the documents that `kubectl kustomize FOLDER` prints."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    if unknown := set(kustomization) - KNOWN:
        raise ValueError(f"{folder}/kustomization.yaml uses {sorted(unknown)}; this renderer knows {sorted(KNOWN)}: extend it")
    documents: list[Document] = []
    for name in kustomization["resources"]:
        path = folder / name
        documents += render(path) if path.is_dir() else [copy.deepcopy(each) for each in yaml.safe_load_all(path.read_text())]
    for patch in kustomization.get("patches", []):
        _apply(patch, documents)
    if namespace := kustomization.get("namespace"):
        for document in documents:
            document["metadata"]["namespace"] = namespace
    return documents


def _apply(patch: Document, documents: list[Document]) -> None:
    wanted = patch["target"]
    hit = [each for each in documents if each["kind"] == wanted["kind"] and each["metadata"]["name"] == wanted["name"]]
    if len(hit) != 1:
        raise ValueError(f"a patch is for {wanted}, which {len(hit)} documents are; want 1")
    for operation in yaml.safe_load(patch["patch"]):
        _operate(hit[0], operation)


def _operate(document: Document, operation: Document) -> None:
    if operation["op"] != "replace":
        raise ValueError(f"a patch uses {operation['op']}; this renderer knows replace: extend it")
    *way, last = operation["path"].strip("/").split("/")
    place: Any = document
    for key in way:
        place = place[int(key) if isinstance(place, list) else key]
    if last not in place:
        raise ValueError(f"a patch replaces {operation['path']}, which is not there")
    place[last] = operation["value"]
