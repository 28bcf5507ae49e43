"""Descriptor pool of the stubs: their messages collide with no others of the process.

The product registers the same files in protobuf's default pool, where a file of another release would be refused.
"""

from __future__ import annotations

from google.protobuf.descriptor_pool import DescriptorPool

__all__ = ["POOL"]

POOL = DescriptorPool()
