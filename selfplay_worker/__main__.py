"""`python -m selfplay_worker`: run one worker; `--help` lists its settings."""

from __future__ import annotations

import sys

from zerofleet.service.imports import importing

with importing():
    from selfplay_worker.settings import WorkerSettings
    from zerofleet.service.lifecycle import run_service
    from zerofleet.service.process_end import end_process
    from zerofleet.service.settings import load_settings


def main() -> int:
    """Run a worker with the settings of the command line and the environment; return its exit code."""
    settings = load_settings(WorkerSettings, sys.argv[1:])
    with importing():  # only now: invalid settings are refused at once
        from selfplay_worker.worker import serve  # noqa: PLC0415
        from zerofleet.service.compilation import report_compilation  # noqa: PLC0415
    report_compilation(settings.announce)
    return run_service(lambda service: serve(service, settings), settings)


if __name__ == "__main__":
    end_process(main())
