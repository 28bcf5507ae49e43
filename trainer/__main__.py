"""`python -m trainer`: run the trainer; `--help` lists its settings."""

from __future__ import annotations

import sys

from trainer.service import serve
from trainer.settings import TrainerSettings
from zerofleet.lifecycle import run_service
from zerofleet.settings import load_settings


def main() -> int:
    """Run the trainer with the settings of the command line and the environment; return its exit code."""
    settings = load_settings(TrainerSettings, sys.argv[1:])
    return run_service(lambda service: serve(service, settings), settings)


if __name__ == "__main__":
    sys.exit(main())
