"""Faults that end a task of the web application, as a page shows them."""

from __future__ import annotations

from games.faults import fault_of

__all__ = ["shown_fault"]


def shown_fault(error: Exception) -> str:
    """Return the words for an unexpected exception: the fault in a game's own rules, or where the log has the traceback."""
    return str(fault_of(error) or "a defect; the log of zerofleet ui has it")
