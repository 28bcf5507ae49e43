"""Persistent state: files, run directories, streams, model stores, the game log, journals and backups."""
