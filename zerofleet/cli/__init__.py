"""The `zerofleet` command: starts services as processes and calls them; `zerofleet.cli.app` lists the commands."""

from zerofleet.cli.app import main

__all__ = ["main"]
