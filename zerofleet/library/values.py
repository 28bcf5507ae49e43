"""Base of the values that pages and `--json` show: frozen, with the docstrings of their fields in the schema of the API."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Value"]


class Value(BaseModel):
    """Value of a page, of an answer of the API and of a command's `--json`."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)
