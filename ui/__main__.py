"""`python -m ui`: serve the web application; `--help` lists its settings."""

from __future__ import annotations

import sys

from ui.service import serve
from ui.settings import UiSettings
from zerofleet.service.lifecycle import run_service
from zerofleet.service.process_end import end_process
from zerofleet.service.settings import load_settings


def main() -> int:
    """Serve with the settings of the command line and the environment; return the exit code."""
    settings = load_settings(UiSettings, sys.argv[1:])
    return run_service(lambda service: serve(service, settings), settings)


if __name__ == "__main__":
    end_process(main())
