"""Words of bits against Python's integers."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from games.kit.bits import count_bits, lowest_bit

words = st.integers(0, 2**64 - 1)


@given(words)
@example(0)
@example(2**64 - 1)
def test_count_bits_returns_the_number_of_set_bits(word):
    assert count_bits(np.uint64(word)) == word.bit_count()


@given(words)
@example(0)
@example(2**63)
def test_lowest_bit_returns_its_index_or_64_for_no_bits(word):
    assert lowest_bit(np.uint64(word)) == ((word & -word).bit_length() - 1 if word else 64)
