"""Pages of the documentation site: its navigation, and the files outside docs/ that pages link to.

docs/ is plain Markdown with relative links, also to files of the repository such as `../ARCHITECTURE.md`. In the site each of
those files is a page below `project/`, so that the site is complete without an address of the repository. The navigation is
that of docs/README.md, which lists every page. Nothing here needs mkdocs; `hooks.py` connects it.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

ROOT = Path(__file__).parents[2]
DOCS = "docs/"
PROJECT = "project/"
INDEX = "README.md"

Navigation: TypeAlias = list[str | dict[str, Any]]  # as `nav` of mkdocs.yml

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_CODE_SPAN = re.compile(r"`[^`]*`")
_ELSEWHERE = ("http://", "https://", "mailto:", "#")
_LANGUAGES = {".py": "python", ".toml": "toml", ".proto": "protobuf", ".yaml": "yaml", ".yml": "yaml", ".sh": "bash"}

GROUPS: dict[str, tuple[str, ...]] = {
    "Use": ("all users",),
    "Operate": ("operators", "planners", "security officers", "distributors"),
    "Research": ("researchers",),
}
"""Group of the pages directly in docs/, by a word in the index's column of readers; all others are for `Program`. A page in a
folder belongs to the group of its folder, a notebook to the tutorials."""
OTHER_READERS = "Program"
ORDER = ("Tutorials", "Use", "Research", "Operate", "Program", "Games", "Agents", "Results", "Decisions", "Project")


@dataclass(frozen=True, slots=True)
class OutsidePage:
    """A file outside docs/ as a page of the site."""

    path: str
    """From the root of the repository."""
    source: str
    """Name of the page among the sources of the site."""
    text: str
    """Markdown."""


def source_of(path: str) -> str:
    """Return the source of the site for a path of the repository, as in `docs/ui.md` and `examples/one_process.py`."""
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    page = PROJECT + path.lstrip(".")  # a dot would hide the page
    return page if page.endswith(".md") else f"{page}.md"


def links(path: str, text: str) -> Iterator[str]:
    """Yield the paths of the repository to which a page links; `path` is that of the page."""
    found: list[str] = []
    _with_links(text, lambda target: found.append(_resolved(path, target)[0]) or target)  # type: ignore[func-returns-value]
    yield from found


def rewritten(path: str, text: str) -> str:
    """Return the text of a page with links between sources of the site; `path` is that of the page in the repository."""
    start = posixpath.dirname(source_of(path)) or "."

    def replaced(target: str) -> str:
        wanted, anchor = _resolved(path, target)
        return posixpath.relpath(source_of(wanted), start) + anchor

    return _with_links(text, replaced)


def outside_pages(sources: list[str]) -> list[OutsidePage]:
    """Return the files outside docs/ that pages link to, and those that these link to in turn.

    `sources` are the Markdown files of docs/, as paths of the repository. Raises `FileNotFoundError` for a link to nothing.
    """
    found: dict[str, OutsidePage] = {}
    queue = list(sources)
    while queue:
        path = queue.pop()
        text = found[path].text if path in found else (ROOT / path).read_text(encoding="utf-8")
        for target in links(path, text):
            if not target.startswith(DOCS) and target not in found:
                found[target] = OutsidePage(target, source_of(target), _as_markdown(ROOT / target, target))
                queue.append(target)
    return [
        OutsidePage(page.path, page.source, rewritten(page.path, page.text)) for page in sorted(found.values(), key=_by_path)
    ]


def navigation(index: str) -> Navigation:
    """Return the navigation that the text of docs/README.md describes: every page that it links to, once, in groups."""
    groups: dict[str, list[str]] = {name: [] for name in ORDER}
    listed = {INDEX}
    for line in prose(index):
        for target in _LINK.findall(line):
            if target.startswith(_ELSEWHERE) or (source := source_of(_resolved(DOCS + INDEX, target)[0])) in listed:
                continue
            listed.add(source)
            groups.setdefault(_group_of(source, line), []).append(source)
    return [INDEX, *({name: pages} for name, pages in groups.items() if pages)]


def github_anchor(text: str, separator: str = "-") -> str:
    """Return the anchor of a heading as the links in docs/ spell it: punctuation is dropped, each space becomes a dash."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", separator)


def notebook_markdown(notebook: dict[str, Any]) -> str:
    """Return a notebook as Markdown, with the pictures and texts that are stored in it."""
    parts = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        parts += [part for output in cell.get("outputs", ()) if (part := _output_markdown(output))]
    return "\n\n".join(parts) + "\n"


def _output_markdown(output: dict[str, Any]) -> str:
    """Return the richest form of an output of a cell."""
    forms = {"text/plain": output["text"]} if output["output_type"] == "stream" else output.get("data", {})
    if "image/svg+xml" in forms:  # in one line: Markdown ends an HTML block at an empty one
        return "<div>" + " ".join("".join(forms["image/svg+xml"]).splitlines()) + "</div>"
    if "image/png" in forms:
        return f'<img alt="chart" src="data:image/png;base64,{"".join(forms["image/png"]).strip()}">'
    text = "".join(forms.get("text/plain", ())).rstrip()
    return f"```text\n{text}\n```" if text else ""


def _by_path(page: OutsidePage) -> str:
    return page.path


def _group_of(source: str, row: str) -> str:
    if source.endswith(".ipynb.md"):
        return "Tutorials"
    if "/" in source:
        return source.split("/", maxsplit=1)[0].capitalize()
    readers = row.split("|")[2] if row.count("|") > 2 else ""
    return next((name for name, words in GROUPS.items() if any(word in readers for word in words)), OTHER_READERS)


def _resolved(path: str, target: str) -> tuple[str, str]:
    """Return the path of the repository that a page's link names, and its anchor with the mark."""
    file, mark, anchor = target.partition("#")
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), file)), mark + anchor


def _as_markdown(path: Path, name: str) -> str:
    if path.is_dir():
        listed = "\n".join(sorted(entry.name for entry in path.iterdir() if not entry.name.startswith((".", "__"))))
        return f"# `{name}`\n\n```text\n{listed}\n```\n"
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    if path.suffix == ".ipynb":
        return notebook_markdown(json.loads(text))
    return f"# `{name}`\n\n`````{_LANGUAGES.get(path.suffix, 'text')}\n{text}`````\n"


def _with_links(text: str, replaced: Callable[[str], str]) -> str:
    """Return Markdown with the targets of its links to files replaced; code is left alone."""

    def link(match: re.Match[str]) -> str:
        target = match.group(1)
        return match.group() if target.startswith(_ELSEWHERE) else f"]({replaced(target)})"

    def line_of(line: str) -> str:
        spans = [span.span() for span in _CODE_SPAN.finditer(line)]
        return _LINK.sub(
            lambda match: match.group() if any(start < match.start() < end for start, end in spans) else link(match), line
        )

    return "".join(line if is_code else line_of(line) for line, is_code in _lines(text))


def prose(text: str) -> Iterator[str]:
    """Yield the lines of a page that are not in a block of code."""
    return (line for line, is_code in _lines(text) if not is_code)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield every line with its end, and whether it is part of a block of code."""
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark.group(1)
            yield line, True
        elif mark and line.strip() == fence:
            fence = ""
            yield line, True
        else:
            yield line, bool(fence)
