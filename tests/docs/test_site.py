"""The site of the documentation: what `make docs` builds from, without mkdocs, which CI does not install.

Every page is in the navigation once, links out of docs/ lead to pages of the site, and anchors of links are those of headings.
"""

from __future__ import annotations

import importlib.util
import posixpath
import re
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType

import pytest
import working_tree
import yaml

ROOT = working_tree.ROOT
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)\s]+)\)")


def loaded(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # its dataclass looks its module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    return loaded("site_pages", "deploy/site/pages.py")


def sources() -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in DOCS.glob("**/*.md"))


def listed(navigation: list) -> list[str]:
    return [page for entry in navigation for page in ([entry] if isinstance(entry, str) else next(iter(entry.values())))]


def test_the_navigation_names_every_page_of_docs_once(pages):
    named = listed(pages.navigation((DOCS / "README.md").read_text()))
    assert len(named) == len(set(named))
    assert sorted(name for name in named if not name.startswith(pages.PROJECT)) == [name[len("docs/") :] for name in sources()]


def test_every_page_of_the_navigation_has_a_source(pages):
    outside = {page.source for page in pages.outside_pages(sources())}
    for name in listed(pages.navigation((DOCS / "README.md").read_text())):
        assert name in outside or (DOCS / name).is_file()


def test_the_navigation_has_groups_by_folder_and_by_reader(pages):
    index = """
| [operate.md](operate.md) | operators | x |
| [ui.md](ui.md) | all users | again [operate](operate.md) and [elsewhere](https://example.org) |
| [protocol.md](protocol.md) | client authors | x |
[A](agents/README.md), [the house](../ARCHITECTURE.md#the-house), [new](new/page.md)
[a notebook](../examples/a.ipynb)
"""
    assert pages.navigation(index) == [
        "README.md",
        {"Tutorials": ["project/examples/a.ipynb.md"]},
        {"Use": ["ui.md"]},
        {"Operate": ["operate.md"]},
        {"Program": ["protocol.md"]},
        {"Agents": ["agents/README.md"]},
        {"Project": ["project/ARCHITECTURE.md"]},
        {"New": ["new/page.md"]},
    ]


def test_links_between_the_sources_of_the_site_resolve(pages):
    outside = {page.source: page for page in pages.outside_pages(sources())}
    texts = {pages.source_of(path): pages.rewritten(path, (ROOT / path).read_text()) for path in sources()}
    texts |= {source: page.text for source, page in outside.items()}
    headings = {source: re.findall(r"^#+ (.+)$", text, re.MULTILINE) for source, text in texts.items()}
    anchors = {source: {pages.github_anchor(text.replace("`", "")) for text in found} for source, found in headings.items()}
    for source, text in texts.items():
        for target in LINK.findall("\n".join(pages.prose(text))):
            if not target.startswith(("http://", "https://", "mailto:")):
                file, _, anchor = target.partition("#")
                wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), file)) if file else source
                assert wanted in texts or (DOCS / wanted).is_file(), f"{source}: {target}"
                assert not anchor or anchor in anchors[wanted], f"{source}: {target}"


def test_links_out_of_docs_lead_to_pages_of_the_project_and_code_is_left_alone(pages):
    text = "[a](../ARCHITECTURE.md#the-house) [b](agents/README.md) `[c](../x.md)`\n```text\n[d](../y.md)\n```\n[e](#here)\n"
    assert pages.rewritten("docs/own_game.md", text) == (
        "[a](project/ARCHITECTURE.md#the-house) [b](agents/README.md) `[c](../x.md)`\n```text\n[d](../y.md)\n```\n[e](#here)\n"
    )
    assert pages.rewritten("docs/games/othello.md", "[a](../../.env.example)") == "[a](../project/env.example.md)"
    assert pages.rewritten("README.md", "[![b](docs/a.svg)](docs/ui.md)") == "[![b](../a.svg)](../ui.md)"


def test_a_notebook_becomes_a_page_with_its_pictures(pages):
    notebook = {
        "cells": [
            {"cell_type": "markdown", "source": ["# Title"]},
            {
                "cell_type": "code",
                "source": ["position"],
                "outputs": [
                    {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
                    {"output_type": "execute_result", "data": {"image/svg+xml": ["<svg>\n", "</svg>\n"], "text/plain": ["p"]}},
                    {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": ["p"]}},
                ],
            },
        ]
    }
    page = pages.notebook_markdown(notebook)
    for part in ("# Title", "```python\nposition\n```", "```text\n1\n```", "<div><svg> </svg></div>", "base64,AAAA"):
        assert part in page


def test_the_site_loads_nothing_from_another_server():
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert settings["strict"] is True
    assert settings["theme"]["font"] is False
    assert [next(iter(plugin)) for plugin in settings["plugins"]] == ["search"]
    assert not re.search(r"https?://|@import|url\(", (ROOT / "deploy/site/site.css").read_text())
    assert settings["hooks"] == ["deploy/site/hooks.py"]


def test_the_tools_of_the_site_are_pinned_and_no_part_of_the_development_environment():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    for requirement in extras["docs"]:
        name = re.split(r"[<>=]", requirement)[0]
        assert any(pin.startswith(f"{name}==") for pin in pins)
        assert not any(line.startswith(name) for line in extras["dev"])


@pytest.fixture
def links(pages: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the check of external links, which its folder's `pages` reads."""
    monkeypatch.setitem(sys.modules, "pages", pages)
    return loaded("site_links", "deploy/site/links.py")


def test_external_links_are_found_once_and_those_of_this_machine_are_left_out(links, tmp_path):
    text = "[a](https://numba.example.dev/x#y) <https://b.dev/> [c](http://127.0.0.1:80/x) [d](http://minio:9000) [e](ui.md)\n"
    code = "```text\n[f](https://f.dev)\n```\n[g](https://example.org/x) [h](https://b.dev/)\n"
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(text)
    (tmp_path / "docs/ui.md").write_text(text + code)
    found = links.external_links(links.documents(tmp_path))
    assert found == dict.fromkeys(["https://numba.example.dev/x", "https://b.dev/"], tmp_path / "README.md")


def test_the_check_of_links_names_the_page_of_each_fault_and_fails(links, tmp_path, capsys):
    (tmp_path / "README.md").write_text("[a](https://a.dev) [b](https://b.dev)\n")
    assert links.main(tmp_path, lambda address: "status 404" if "b.dev" in address else "") == 1
    assert capsys.readouterr().out.splitlines() == [
        "README.md: https://b.dev: status 404",
        "2 external links, 1 with a fault",
    ]
    assert links.main(tmp_path, lambda address: "") == 0


def test_a_link_opens_by_status_and_a_server_that_refuses_programs_is_no_fault(links):
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(int(self.path[1:]))
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever).start()
        base = f"http://127.0.0.1:{server.server_port}"
        assert [links.opened(f"{base}/{status}") for status in (200, 403, 429, 404)] == ["", "", "", "status 404"]
        server.shutdown()
    assert "refused" in links.opened(base)


def test_no_step_of_ci_opens_external_links():
    steps = (ROOT / ".ci/run").read_text()
    assert "make links" not in steps
    assert "links.py" not in steps
