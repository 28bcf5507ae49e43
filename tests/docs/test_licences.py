"""No runtime dependency without a licence that may be passed on, and the table of them is the one of the environment."""

from __future__ import annotations

import importlib.util
import tomllib
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def licences():
    spec = importlib.util.spec_from_file_location("licences", ROOT / "deploy/sbom/licences.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def metadata(**fields: str | list[str]) -> Message:
    message = Message()
    for name, values in fields.items():
        for value in [values] if isinstance(values, str) else values:
            message[name.replace("_", "-")] = value
    return message


def test_every_runtime_dependency_has_a_redistributable_licence(licences):
    packages = licences.runtime_packages()
    assert {"numpy", "torch", "grpcio", "redis", "hiredis", "boto3", "starlette", "opentelemetry-sdk"} <= set(packages)
    assert licences.faults({name: package.metadata for name, package in packages.items()}) == []


def test_the_page_of_licences_matches_the_environment(licences):
    assert licences.TABLE.read_text() == licences.page(licences.runtime_packages()), "run python deploy/sbom/licences.py"


def test_developer_tools_are_not_runtime_dependencies(licences):
    packages = licences.runtime_packages()
    for tool in ("pytest", "mypy", "ruff", "hypothesis", "fakeredis"):
        assert tool not in packages


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License_Expression": "MIT OR Apache-2.0"}, "MIT OR Apache-2.0"),
        ({"Classifier": ["License :: OSI Approved :: MIT License"]}, "MIT"),
        ({"Classifier": ["License :: OSI Approved", "License :: OSI Approved :: BSD License"]}, "BSD"),
        ({"License": "BSD-3-Clause"}, "BSD-3-Clause"),
        ({"License": "BSD 3-Clause License\n\nCopyright"}, "BSD-3-Clause"),
        ({"License": "all rights reserved"}, None),
        ({"Classifier": ["License :: OSI Approved :: GNU General Public License v3 (GPLv3)"]}, None),
        ({}, None),
    ],
)
def test_a_licence_is_read_from_the_metadata(licences, fields, licence):
    assert licences.licence_of(metadata(**fields)) == licence


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("BSD-2-Clause AND Apache-2.0 WITH LLVM-exception", True),
        ("(MIT OR GPL-3.0-only) AND ISC", True),
        ("GPL-3.0-only", False),
        ("MIT AND AGPL-3.0-or-later", False),
        ("LicenseRef-Proprietary", False),
        ("", False),
    ],
)
def test_a_licence_expression_is_allowed_when_it_can_be_satisfied(licences, expression, allowed):
    assert licences.is_allowed(expression) is allowed


def test_packages_without_a_redistributable_licence_are_listed(licences):
    found = licences.faults(
        {"left": metadata(License_Expression="AGPL-3.0-only"), "right": metadata(), "fine": metadata(License="MIT")}
    )
    assert len(found) == 2
    assert found[0].startswith("left is under AGPL-3.0-only")
    assert found[1].startswith("right names no licence")


def test_a_bill_of_materials_contains_the_runtime_dependencies(licences):
    sbom = {
        "bomFormat": "CycloneDX",
        "metadata": {"component": {"bom-ref": "root"}},
        "components": [{"bom-ref": "a", "name": "typing_extensions"}, {"bom-ref": "b", "name": "pytest"}],
        "dependencies": [{"ref": "root", "dependsOn": ["a", "b"]}, {"ref": "a"}, {"ref": "b"}],
    }
    kept = licences.runtime_part(sbom, ["typing-extensions"])
    assert [one["bom-ref"] for one in kept["components"]] == ["a"]
    assert kept["dependencies"] == [{"ref": "root", "dependsOn": ["a"]}, {"ref": "a"}]


def test_the_project_states_its_licence():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text()[:200]
