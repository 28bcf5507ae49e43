"""Directories and buckets keep the public contract of a model store."""

from __future__ import annotations

from zerofleet.testing import StoreContract


class TestStores(StoreContract):
    """`place` of this folder is one of each."""
