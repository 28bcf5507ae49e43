"""Number of positions that the kernel processes together, from sizes and caches."""

from __future__ import annotations

import os

import pytest

from zerofleet.evaluators.native.blocks import Sizes, block_of, second_level_cache

MIB = 1 << 20
XEON = 2 * MIB
EPYC = 512 << 10


def tower(blocks: int, channels: int) -> Sizes:
    """Return the sizes of a tower on 6 x 7 cells, whose tiles have 110 products; its stem reads one channel in 16."""
    layer = 4 * 36 * channels**2
    return Sizes(position=4 * channels * 2 * (43 + 110), layer=layer, network=2 * blocks * layer + layer // 16)


@pytest.mark.parametrize(
    ("blocks", "channels", "cache", "rows", "tiled_rows"),
    [
        (2, 32, XEON, 12, 16),
        (4, 64, XEON, 6, 16),
        (6, 96, XEON, 6, 16),
        (14, 96, XEON, 6, 16),  # a layer fits into the cache
        (4, 128, XEON, 6, 16),  # the weights of all layers are less than 32 MiB
        (8, 128, XEON, 24, 32),
        (8, 256, XEON, 12, 16),
        (8, 128, EPYC, 6, 16),
        (5, 128, EPYC, 6, 16),
    ],
)
def test_blocks_are_larger_where_a_large_networks_layers_exceed_the_cache(blocks, channels, cache, rows, tiled_rows):
    sizes = tower(blocks, channels)
    assert block_of(sizes, tiled=False, cache_bytes=cache) == rows
    assert block_of(sizes, tiled=True, cache_bytes=cache) == tiled_rows


@pytest.mark.parametrize("channels", [8, 32, 64, 96, 128, 256, 512])
@pytest.mark.parametrize("tiled", [False, True])
def test_without_a_known_cache_the_block_is_bounded_by_half_a_mebibyte(channels, tiled):
    sizes = tower(20, channels)
    chosen = block_of(sizes, tiled=tiled)
    smallest = 16 if tiled else 6
    assert chosen in (32, 16) if tiled else chosen in (48, 24, 12, 6)
    assert chosen == smallest or chosen * sizes.position <= MIB // 2


@pytest.mark.parametrize("cache", [0, 1, EPYC, MIB, XEON, 64 * MIB, 1 << 60])
@pytest.mark.parametrize("channels", [8, 64, 128, 256, 512])
@pytest.mark.parametrize("tiled", [False, True])
def test_no_cache_makes_blocks_smaller_or_their_memory_unbounded(cache, channels, tiled):
    sizes = tower(20, channels)
    fixed, chosen = block_of(sizes, tiled=tiled), block_of(sizes, tiled=tiled, cache_bytes=cache)
    assert fixed <= chosen <= 48
    assert chosen == fixed or chosen * sizes.position <= 3 * cache
    if sizes.layer <= cache:
        assert chosen == fixed


@pytest.mark.parametrize(("stated", "used"), [(XEON, XEON), (0, 0), (-1, 0)])
def test_a_cache_of_unknown_size_counts_as_none(monkeypatch, stated, used):
    asked = []
    monkeypatch.setattr(os, "sysconf", lambda name: asked.append(name) or stated)
    assert second_level_cache() == used
    assert asked == ["SC_LEVEL2_CACHE_SIZE"]


@pytest.mark.parametrize("error", [ValueError("unrecognized configuration name"), OSError(22, "Invalid argument")], ids=repr)
def test_a_system_that_cannot_state_its_cache_has_none(monkeypatch, error):
    def refuse(name: str) -> int:
        raise error

    monkeypatch.setattr(os, "sysconf", refuse)
    assert second_level_cache() == 0
