"""The `zerofleet` command: starts services as processes and talks to them; see `zerofleet.cli.app` for the commands."""

from zerofleet.cli.app import main

__all__ = ["main"]
