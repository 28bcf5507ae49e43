"""Backups of a run directory: taken while the run goes on, verified by hash, restored whole or not at all."""

from zerofleet.backups.contents import BackupContents, list_backups, verify_backup
from zerofleet.backups.restore import restore_backup
from zerofleet.backups.save import save_backup

__all__ = ["BackupContents", "list_backups", "restore_backup", "save_backup", "verify_backup"]
