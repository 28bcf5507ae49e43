"""`zerofleet backup` and `zerofleet restore`: hot backup of a run, and its restoration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli import screen
from zerofleet.storage.backups import restore_backup, save_backup, verify_backup
from zerofleet.storage.run_lookup import named_run

__all__ = ["backup", "restore"]


def backup(
    run_dir: Annotated[
        Path, typer.Argument(metavar="RUN_DIR", help="Run directory, or its name below runs/, or a part of one.")
    ],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Directory of backups; a folder is added to it.")],
    keep: Annotated[
        int, typer.Option("--keep", metavar="N", min=0, help="Delete all but the newest N backups of this run; 0 keeps all.")
    ] = 0,
) -> None:
    """Back up a run, also while it is running.

    Games, checkpoints, models, champion and match results are copied consistently: every reference resolves in the backup.
    The backup lists every file with its hash. Files that equal those of the previous backup are hard links to them.
    With --keep the oldest backups of this run make room on a full disk; the newest one stays.
    """
    screen.out().print(str(save_backup(named_run(str(run_dir)), to, keep=keep)), markup=False, soft_wrap=True)


def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="Backup: a folder made by `zerofleet backup`.")],
    run_dir: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN_DIR",
            help="Directory for the run; must be empty, or hold an interrupted restore of the same backup.",
            show_default=False,
        ),
    ] = None,
    parts: Annotated[
        list[str] | None,
        typer.Option("--part", metavar="FOLDER", help="Restore only this folder of the run, such as replay. May be repeated."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only verify the hashes of the backup.")] = False,
) -> None:
    """Restore a run from a backup, after verifying the hash of every file.

    The same command resumes an interrupted restore.
    """
    if check == (run_dir is not None):
        given = "both are given" if check else "neither RUN_DIR nor --check is given"
        raise typer.BadParameter(f"{given}; want a RUN_DIR to restore to, or --check", param_hint="RUN_DIR")
    contents = verify_backup(source) if run_dir is None else restore_backup(source, run_dir, parts=parts or ())
    done = "sound" if check else "restored"
    screen.out().print(f"{len(contents.files)} files, {contents.size_bytes / 1e6:,.1f} MB: {done}", markup=False)
