"""`python -m inference_server.backend_report`: one line about the backend that a server with these settings would use.

For `zerofleet doctor`, which imports no service. Ends with 2 and one line on standard error for settings that this machine
cannot meet.
"""

from __future__ import annotations

import sys

from inference_server.chosen_backend import choose_backend
from inference_server.settings import ServerSettings
from zerofleet.errors import ConfigurationError
from zerofleet.service import logs
from zerofleet.service.settings import load_settings

__all__ = ["main"]


def main() -> int:
    """Write the line for the settings of command line and environment; return the exit code."""
    settings = load_settings(ServerSettings, sys.argv[1:])
    logs.configure("warning", settings.log_format, "backend_report")
    try:
        found = choose_backend(settings.device, settings.precision, settings.inference.threads, choice=settings.backend)
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{found.summary} ({found.reason})\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
