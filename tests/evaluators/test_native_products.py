"""Products of matrices of the compiled kernel, compiled as tuned for several processors."""

from __future__ import annotations

import ctypes
import platform
import subprocess

import numpy as np
import pytest
from random_networks import instruction_sets

from zerofleet.evaluators.native.build import FOLDER, compiling

pytestmark = pytest.mark.usefixtures("built")

PRODUCTS = """
#include "winograd.h"

int lanes(void) { return LANES; }
int rows(void) { return ROWS; }

void multiply(long rows, int columns, int k, const float *a, const float *b, float *c) {
    product(rows, columns, k, a, k, b, c, columns);
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("tuning", ["", "-mtune=znver3", "-march=native"])
@pytest.mark.parametrize("instructions", [name for name in instruction_sets() if name != "amx"])
def test_a_row_of_a_product_is_the_same_alone_and_among_others_however_the_compiler_is_tuned(tmp_path, instructions, tuning):
    """Unless they are fused explicitly, gcc 12 splits the sums of some tiles when tuned for znver3, and gcc 16 always."""
    source, made = tmp_path / "products.c", tmp_path / "products.so"
    source.write_text(PRODUCTS)
    tuned = tuning.split() if platform.machine() == "x86_64" else []
    command = [*compiling(instructions), *tuned, f"-I{FOLDER}", "-shared", source, "-o", made]
    subprocess.run(command, check=True, timeout=300)
    compiled = ctypes.CDLL(str(made))
    lanes, rows, k, rng = compiled.lanes(), compiled.rows(), 96, np.random.default_rng(4)
    left = rng.normal(size=(2 * rows, k)).astype(np.float32)
    panels = [rng.normal(size=(k, width)).astype(np.float32) for width in (2 * lanes, lanes)]
    packed = np.concatenate([panel.ravel() for panel in panels])

    def multiplied(given: np.ndarray) -> np.ndarray:
        answer = np.empty((len(given), 3 * lanes), np.float32)
        pointers = (array.ctypes.data_as(ctypes.c_void_p) for array in (given, packed, answer))
        compiled.multiply(ctypes.c_long(len(given)), 3 * lanes, k, *pointers)
        return answer

    together = multiplied(left)
    exact, right = left.astype(float), np.concatenate(panels, axis=1).astype(float)
    bound = 2 * k * 2.0**-24 * (np.abs(exact) @ np.abs(right))  # a product and a sum rounded for each term
    assert (np.abs(together - exact @ right) <= bound).all()
    for count in range(1, 2 * rows):
        np.testing.assert_array_equal(multiplied(left[:count]), together[:count])
