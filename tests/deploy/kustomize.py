"""A renderer for the part of kustomize that `deploy/kubernetes` uses.

    resources, components    folders and files, in this order
    patches                  JSON patches (add, replace, remove, test) for a target; `$patch: delete` by the document's own name
    images, namespace        after the patches

Anything else in a kustomization is refused, so that a test never passes over what it cannot render.
"""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import yaml

KINDS = {"Kustomization": "kustomize.config.k8s.io/v1beta1", "Component": "kustomize.config.k8s.io/v1alpha1"}
KNOWN = {"apiVersion", "kind", "resources", "components", "patches", "images", "namespace"}
CLUSTER_WIDE = {"Namespace", "PersistentVolume", "StorageClass", "ClusterRole", "ClusterRoleBinding"}

Document = dict[str, Any]

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # seven times as fast where PyYAML has libyaml


def render(folder: Path) -> list[Document]:
    """Return the documents that `kubectl kustomize FOLDER` prints."""
    return _extend(folder, [], "Kustomization")


def _extend(folder: Path, before: list[Document], kind: str) -> list[Document]:
    """Return what a kustomization makes of the documents before it: none, unless it is a component."""
    kustomization = _read(folder, kind)
    documents = before
    for name in kustomization.get("resources", []):
        path = folder / name
        if not path.exists():
            raise ValueError(f"{folder} names {name}, which is not there")
        documents = documents + (render(path) if path.is_dir() else list(_documents(path.read_text())))
    _require_distinct(folder, documents)
    for name in kustomization.get("components", []):
        documents = _extend(folder / name, documents, "Component")
    documents = copy.deepcopy(documents)
    for patch in kustomization.get("patches", []):
        _patch(folder, patch, documents)
    for image in kustomization.get("images", []):
        _retag(image, documents)
    if namespace := kustomization.get("namespace"):
        for document in documents:
            if document["kind"] not in CLUSTER_WIDE:
                document["metadata"]["namespace"] = namespace
    return documents


@functools.cache
def _documents(text: str) -> tuple[Document, ...]:
    """Return the documents of a file, which callers copy before they change them."""
    return tuple(yaml.load_all(text, LOADER))


def _read(folder: Path, kind: str) -> Document:
    kustomization: Document = yaml.load((folder / "kustomization.yaml").read_text(), LOADER)
    if unknown := set(kustomization) - KNOWN:
        raise ValueError(f"{folder}/kustomization.yaml uses {sorted(unknown)}; this renderer knows {sorted(KNOWN)}: extend it")
    if (kustomization["kind"], kustomization["apiVersion"]) != (kind, KINDS[kind]):
        raise ValueError(f"{folder}/kustomization.yaml is a {kustomization['kind']}, want a {kind} of {KINDS[kind]}")
    return kustomization


def _require_distinct(folder: Path, documents: list[Document]) -> None:
    names = [(each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in documents]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{folder} has {sorted(twice)} twice; kustomize refuses that")


def _patch(folder: Path, patch: Document, documents: list[Document]) -> None:
    if unknown := set(patch) - {"target", "patch", "path"}:
        raise ValueError(f"a patch of {folder} has {sorted(unknown)}; this renderer does not: extend it")
    body = yaml.load(patch["patch"] if "patch" in patch else (folder / patch["path"]).read_text(), LOADER)
    target = patch.get("target") or {"kind": body["kind"], "name": body["metadata"]["name"]}
    if unknown := set(target) - {"kind", "name"}:
        raise ValueError(f"a target of {folder} has {sorted(unknown)}; this renderer does not: extend it")
    hit = [each for each in documents if each["kind"] == target["kind"] and each["metadata"]["name"] == target["name"]]
    if len(hit) != 1:
        raise ValueError(f"a patch of {folder} is for {target}, which {len(hit)} documents are; want 1")
    if isinstance(body, dict):
        if set(body) != {"$patch", "apiVersion", "kind", "metadata"} or body["$patch"] != "delete":
            raise ValueError(f"a patch of {folder} for {target} merges; this renderer only deletes: write a JSON patch")
        documents[:] = [each for each in documents if each is not hit[0]]
        return
    for operation in body:
        _operate(hit[0], operation)


def _operate(document: Document, operation: Document) -> None:
    """Carry out an operation of RFC 6902."""
    *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
    place: Any = document
    for key in way:
        place = place[int(key) if isinstance(place, list) else key]
    key = int(last) if isinstance(place, list) and last != "-" else last
    there = key in place if isinstance(place, dict) else key != "-" and int(key) < len(place)
    op, value = operation["op"], copy.deepcopy(operation.get("value"))
    if op != "add" and not there:
        raise ValueError(f"a patch is to {op} {operation['path']}, which is not there")
    if op == "add" and isinstance(place, list):
        place.insert(len(place) if key == "-" else int(key), value)
    elif op in {"add", "replace"}:
        place[key] = value
    elif op == "remove":
        del place[key]
    elif op == "test":
        if place[key] != value:
            raise ValueError(f"{operation['path']} is {place[key]!r}, a patch wants {value!r} there")
    else:
        raise ValueError(f"a patch uses {op}; this renderer knows add, replace, remove, test: extend it")


def _retag(image: Document, documents: list[Document]) -> None:
    if unknown := set(image) - {"name", "newName", "newTag"}:
        raise ValueError(f"an image has {sorted(unknown)}; this renderer does not: extend it")
    for document in documents:
        for container in _containers(document):
            name, _, tag = container["image"].partition(":")
            if name == image["name"]:
                container["image"] = f"{image.get('newName', name)}:{image.get('newTag', tag)}"


def _containers(node: Any) -> list[Document]:
    """Return every container below a document."""
    if isinstance(node, list):
        return [container for each in node for container in _containers(each)]
    if not isinstance(node, dict):
        return []
    own = [container for name in ("containers", "initContainers") for container in node.get(name) or []]
    return own + [container for name, each in node.items() if name not in {"containers"} for container in _containers(each)]
