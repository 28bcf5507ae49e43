"""Metadata of the product and of the client for a package index: description, links, classifiers."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
HOME = "https://forge.example/owner/zerofleet"
TARGET = re.compile(r"\]\(([^)\s]+)\)")


def prose(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("folder", [".", "client"])
def test_every_link_and_image_of_the_description_is_absolute_and_exists(folder, monkeypatch):
    monkeypatch.setenv("ZEROFLEET_HOME_URL", HOME)
    core = ProjectMetadata(str(ROOT / folder), PluginManager()).core
    targets = [target for target in TARGET.findall(prose(core.readme)) if not target.startswith("#")]
    assert len(targets) >= 2
    for target in [*targets, *core.urls.values()]:
        if target in {HOME, f"{HOME}/issues"}:
            continue
        kind, _, path = target.removeprefix(f"{HOME}/").partition("/HEAD/")
        assert kind in {"blob", "raw"}
        assert (ROOT / path.partition("#")[0]).exists(), target


def test_images_are_shown_from_where_their_content_is(monkeypatch):
    monkeypatch.setenv("ZEROFLEET_HOME_URL", HOME)
    text = ProjectMetadata(str(ROOT), PluginManager()).core.readme
    images = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    assert images
    assert all(image.startswith(f"{HOME}/raw/HEAD/docs/") for image in images)


def test_without_an_address_the_description_has_no_dead_links(monkeypatch):
    monkeypatch.delenv("ZEROFLEET_HOME_URL", raising=False)
    core = ProjectMetadata(str(ROOT), PluginManager()).core
    assert [target for target in TARGET.findall(prose(core.readme)) if not target.startswith(("#", "https://"))] == []
    assert core.urls == {}
    assert "zf.match(" in core.readme


def test_a_description_keeps_code_absolute_links_and_places_in_the_page():
    describe = runpy.run_path(str(ROOT / "hatch_build.py"))["describe"]
    text = "[a](b.md#c) [d](#e) [f](https://g.example) [![h](i.svg)](../j.md)\n```text\n[k](l)\n```\n"
    assert describe(text, home=HOME, folder="docs") == (
        f"[a]({HOME}/blob/HEAD/docs/b.md#c) [d](#e) [f](https://g.example)"
        f" [![h]({HOME}/raw/HEAD/docs/i.svg)]({HOME}/blob/HEAD/j.md)\n```text\n[k](l)\n```\n"
    )
    assert describe(text, home="", folder="docs").startswith("a [d](#e) [f](https://g.example) h\n")


@pytest.mark.parametrize("folder", [".", "client"])
def test_classifiers_exist_and_name_the_tested_versions_of_python(folder):
    core = ProjectMetadata(str(ROOT / folder), PluginManager()).core
    versions = {name.removeprefix("Programming Language :: Python :: ") for name in core.classifiers if ":: 3." in name}
    assert versions == {"3.11", "3.13", "3.14"}  # docs/client.md#systems
    assert "Typing :: Typed" in core.classifiers
