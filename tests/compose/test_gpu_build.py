"""The build of torch for a GPU: the images, the files that build them and the pages name one that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILDS = {"2.13": {"cu126": ("12.6", 525), "cu130": ("13.0", 580)}}
"""CUDA and oldest driver of the builds of each torch: PyTorch's issues 178665 and 190355, NVIDIA's table of compatibility.

Not complete: those that the pages offer. A torch that is not listed needs a look at both before its pin is changed.
"""


def read(name: str) -> str:
    return (ROOT / name).read_text()


def tags(name: str) -> list[str]:
    return re.findall(r"download\.pytorch\.org/whl/(cu\d+)", read(name))


@pytest.fixture
def builds() -> dict[str, tuple[str, int]]:
    (pinned,) = re.findall(r"^torch==(\d+\.\d+)\.", read("constraints.txt"), re.MULTILINE)
    assert pinned in BUILDS, f"look up which builds torch {pinned} has for CUDA, and correct compose file, Dockerfile and pages"
    return BUILDS[pinned]


def test_images_for_a_gpu_take_a_build_that_the_pinned_torch_has(builds):
    (tag,) = tags("compose.gpu.yml")
    assert tag in builds
    assert tags("Dockerfile") == [tag]
    assert tags("docs/compose.md") == [tag, *(other for other in builds if other != tag)]


def test_pages_and_files_name_the_driver_that_each_build_needs(builds):
    (tag,) = tags("compose.gpu.yml")
    cuda, driver = builds[tag]
    for name in ("compose.gpu.yml", "docs/kubernetes.md"):
        assert f"CUDA {cuda}" in read(name)
        assert f"{driver} or newer" in read(name)
    assert f"torch for CUDA {cuda}" in read("docs/compose.md")
    for other, (cuda, driver) in builds.items():
        assert f"/whl/{other}` | {cuda} | {driver} or newer |" in read("docs/compose.md")


def test_no_page_names_a_cuda_for_which_the_images_cannot_be_built(builds):
    known = {cuda for cuda, _ in builds.values()}
    for name in ("compose.gpu.yml", "Dockerfile", "docs/compose.md", "docs/kubernetes.md"):
        assert set(re.findall(r"CUDA (\d+\.\d)", read(name))) <= known, name
