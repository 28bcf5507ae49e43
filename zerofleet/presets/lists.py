"""Lists of settings as text: JSON, or items between commas.

    [64, 32]                            JSON, in which an item may hold any character
    64,32     random,alpha_beta:3       items between commas, blanks around them dropped
    random,uct:100,final=visits         two agents: an OPTION=VALUE belongs to the item before it

One parser serves `--set`, the environment and the command lines of the services.
"""

from __future__ import annotations

import re
import types
import typing
from typing import Any

from pydantic_core import from_json

__all__ = ["is_list", "parse_list"]

_OPTION = re.compile(r"[A-Za-z_]\w*=")


def is_list(annotation: Any) -> bool:
    """Return whether a value of this type, or of a member of this union, is a list or a tuple."""
    if typing.get_origin(annotation) in {typing.Union, types.UnionType}:
        return any(is_list(member) for member in typing.get_args(annotation))
    return (typing.get_origin(annotation) or annotation) in {list, tuple}


def parse_list(text: str) -> list[Any]:
    """Return the items of a list: JSON values if the text begins with a bracket, otherwise text.

    Raises `ValueError` for a JSON list that is malformed, and for an empty item between commas.
    """
    if text.lstrip().startswith("["):
        try:
            return list(from_json(text))
        except ValueError as error:
            raise ValueError(f"{text!r} is not a JSON list: {error}; write {_FORMS}") from error
    items: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        if not part:
            raise ValueError(f"{text!r} has an empty item; write {_FORMS}")
        if items and _OPTION.match(part):
            items[-1] += f",{part}"
        else:
            items.append(part)
    return items


_FORMS = 'A,B or ["A", "B"], and [] for an empty list'
