"""Hooks of mkdocs for the documentation site (`mkdocs.yml`); `pages.py` does the work."""

from __future__ import annotations

from pathlib import Path

import pages
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

STYLE = "site.css"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the navigation from the index, and spell anchors as the links in docs/ do."""
    config.nav = pages.navigation((Path(config.docs_dir) / pages.INDEX).read_text(encoding="utf-8"))
    config.mdx_configs.setdefault("toc", {})["slugify"] = pages.github_anchor
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the files outside docs/ that pages link to, and the style sheet."""
    sources = [pages.DOCS + file.src_uri for file in files.documentation_pages()]
    for page in pages.outside_pages(sources):
        files.append(File.generated(config, page.source, content=page.text, inclusion=InclusionLevel.NOT_IN_NAV))
    files.append(File.generated(config, STYLE, content=(Path(__file__).parent / STYLE).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links out of docs/ to the pages of the site; those of generated pages lead there already."""
    return markdown if page.file.generated_by else pages.rewritten(pages.DOCS + page.file.src_uri, markdown)
