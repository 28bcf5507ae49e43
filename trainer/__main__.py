"""Command `python -m trainer`: run the trainer; `--help` lists its settings. Under torchrun it is one of several ranks."""

from __future__ import annotations

import sys

from zerofleet.service.imports import importing

with importing():
    from trainer.settings import TrainerSettings, settings_class
    from zerofleet.errors import ConfigurationError
    from zerofleet.service.lifecycle import EXIT_REFUSED, run_service
    from zerofleet.service.process_end import end_process
    from zerofleet.service.settings import inherited_environment, load_settings


def main() -> int:
    """Run the trainer with the settings of command line and environment; return its exit code."""
    settings = load_settings(settings_class(), sys.argv[1:])
    with importing():  # torch, and only now: invalid settings are refused at once
        from trainer.follower import follow, settings_of_follower  # noqa: PLC0415
        from trainer.ranks import place_in  # noqa: PLC0415
        from trainer.service import serve  # noqa: PLC0415
    try:
        place = place_in(inherited_environment())
    except ConfigurationError as error:
        sys.stderr.write(f"{TrainerSettings.SERVICE}: {error}\n")
        return EXIT_REFUSED
    if place.rank == 0:
        return run_service(lambda service: serve(service, settings, place), settings)
    return run_service(lambda service: follow(service, settings, place), settings_of_follower(settings, place))


if __name__ == "__main__":
    end_process(main())
