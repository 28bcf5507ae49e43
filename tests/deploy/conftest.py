"""The definitions as they are rendered: each overlay, and each component on top of one."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

import kustomize
import prometheus_checks
from manifests import KUBERNETES, OVERLAYS, ROOT, Document


@pytest.fixture(params=OVERLAYS, ids=lambda path: path.name)
def documents(request: pytest.FixtureRequest) -> list[Document]:
    """What an overlay renders to; once for each of them."""
    return kustomize.render(request.param)


@pytest.fixture
def render() -> Callable[[str], list[Document]]:
    """Return the function that renders a folder below `deploy/kubernetes`."""
    return lambda folder: kustomize.render(KUBERNETES / folder)


@pytest.fixture
def composed(tmp_path: Path) -> Callable[..., list[Document]]:
    """Return the function that renders what a user writes: an overlay of their own, with components and patches."""

    def compose(overlay: str, *components: str, **more: Any) -> list[Document]:
        def relative(folder: str) -> str:
            return os.path.relpath(KUBERNETES / folder, tmp_path)

        kustomization = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "namespace": "zerofleet",
            "resources": [relative(f"overlays/{overlay}")],
            "components": [relative(f"components/{name}") for name in components],
            **more,
        }
        (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        return kustomize.render(tmp_path)

    return compose


@pytest.fixture(scope="session")
def prepare() -> ModuleType:
    """Return the program that draws the passwords of a cluster under compose and writes the users of Redis."""
    spec = importlib.util.spec_from_file_location("prepare", ROOT / "deploy/docker/prepare.py")
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program


@pytest.fixture(params=prometheus_checks.found(), ids=lambda checks: type(checks).__name__.lower())
def prometheus(request: pytest.FixtureRequest) -> prometheus_checks.Checks:
    """Return what checks rules and queries; once for each that is on this machine."""
    checks: prometheus_checks.Checks = request.param
    return checks
