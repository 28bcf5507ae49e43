"""Supervisor: implementation of `zerofleet run`; see `zerofleet.supervisor.supervisor`."""

from zerofleet.supervisor.request import RunRequest, parse_duration, split_settings
from zerofleet.supervisor.supervisor import run

__all__ = ["RunRequest", "parse_duration", "run", "split_settings"]
