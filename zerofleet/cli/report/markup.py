"""Elements of HTML and SVG as text. Names from outside are escaped by construction: only `Markup` passes unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["Markup", "el", "joined", "table"]

_VOID = frozenset({"meta", "input", "img", "br", "line", "path", "rect", "circle", "polygon"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def el(tag: str, /, *children: str, **attributes: object) -> Markup:
    """Return an element; children are escaped unless they are `Markup`.

    A trailing underscore of an attribute's name is dropped and others become hyphens; None and False leave it out.
    """
    given = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _VOID and not children:
        return Markup(f"<{tag}{given}/>")
    return Markup(f"<{tag}{given}>{joined(children)}</{tag}>")


def joined(children: Iterable[str]) -> Markup:
    """Return children in a row, escaped unless they are `Markup`."""
    return Markup("".join(child if isinstance(child, Markup) else escape(child) for child in children))


def table(
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    marked: Sequence[bool] = (),
    is_long: bool = False,
) -> Markup:
    """Return a table that scrolls within the page; `>` before a column's name aligns it to the right.

    `marked` emphasises rows by their place; a long table has a height of its own.
    """
    kinds = ["n" if column.startswith(">") else None for column in columns]
    head = (el("th", column.removeprefix(">"), scope="col", class_=kind) for column, kind in zip(columns, kinds, strict=True))
    body = (
        el(
            "tr",
            *(el("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)),
            class_="marked" if place < len(marked) and marked[place] else None,
        )
        for place, row in enumerate(rows)
    )
    made = el("table", el("caption", caption), el("thead", el("tr", *head)), el("tbody", *body))
    return el("div", made, class_="scroll tall" if is_long else "scroll", tabindex=0, role="group", aria_label=caption)
