"""`zerofleet backup` and `zerofleet restore`: a run put by while it goes on, and put back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli import screen
from zerofleet.storage.backups import restore_backup, save_backup, verify_backup

__all__ = ["backup", "restore"]


def backup(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="Run directory, or a part of one.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Directory of backups; this one becomes a folder in it.")],
    keep: Annotated[int, typer.Option("--keep", metavar="N", min=0, help="Leave the newest N; 0 leaves all.")] = 0,
) -> None:
    """Copy a run to a safe place while it goes on.

    Games, checkpoints, models, champion and match results are copied so that what one names the others have. The backup
    lists every file with its hash.
    """
    screen.out().print(str(save_backup(run_dir, to, keep=keep)), markup=False, soft_wrap=True)


def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="A backup: a folder that `zerofleet backup` has made.")],
    run_dir: Annotated[
        Path | None, typer.Argument(metavar="RUN_DIR", help="Where to put the run; it must be empty.", show_default=False)
    ] = None,
    parts: Annotated[
        list[str] | None,
        typer.Option("--part", metavar="FOLDER", help="Only this folder of the run, such as replay. May be repeated."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only compare the backup with its hashes.")] = False,
) -> None:
    """Put a run back from a backup, after comparing every file with its hash.

    A restore that was interrupted is gone on with by the same command.
    """
    if check == (run_dir is not None):
        raise typer.BadParameter("name a RUN_DIR to restore to, or --check")
    contents = verify_backup(source) if run_dir is None else restore_backup(source, run_dir, parts=parts or ())
    done = "sound" if check else "restored"
    screen.out().print(f"{len(contents.files)} files, {contents.size_bytes / 1e6:,.1f} MB: {done}", markup=False)
