"""Canonical spelling of an agent with options."""

from __future__ import annotations

from zerofleet.agents.spelling import AgentOptions, Spelling

__all__ = ["canonical_name"]


def canonical_name(name: str, argument: str, options: AgentOptions) -> str:
    """Return the name with its argument and the options that differ from their defaults, in declaration order."""
    chosen = options.model_dump(exclude_defaults=True)
    return str(Spelling(name, argument, tuple((option, str(value).lower()) for option, value in chosen.items())))
