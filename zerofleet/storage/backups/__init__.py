"""Backups of a run directory: taken while the run is active, verified by hash, restored atomically."""

from zerofleet.storage.backups.contents import BackupContents, list_backups, verify_backup
from zerofleet.storage.backups.restore import restore_backup
from zerofleet.storage.backups.save import save_backup

__all__ = ["BackupContents", "list_backups", "restore_backup", "save_backup", "verify_backup"]
