"""The definitions as they are rendered: each overlay, and each component on top of one."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

import kustomize
from manifests import KUBERNETES, OVERLAYS, ROOT, Document, Promtool


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


@pytest.fixture
def promtool() -> Promtool:
    """Return what runs promtool, of Debian's package prometheus; tests are left out without it, but never in CI."""
    found = shutil.which("promtool")
    if found is None and not os.environ.get("CI"):
        pytest.skip("promtool is not installed; it comes with Debian's package prometheus")
    assert found is not None, "promtool is missing: .ci/run should have installed Debian's package prometheus"

    def run(*words: str) -> None:
        done = subprocess.run([found, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"

    return run
