"""Options `--set NAME=VALUE` of a command line that a message or a page advises."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["set_options"]


def set_options(values: Mapping[str, str]) -> list[str]:
    """Return the words of the options that set these parameters or settings."""
    return [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
