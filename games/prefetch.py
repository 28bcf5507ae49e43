"""Memory prefetch from compiled code, an LLVM intrinsic that numba does not expose.

Some programs spend most of their time on cache misses. Prefetching makes a solver, whose table is far larger than the caches,
1.7 times as fast, and a search of 4,096 games 1.2 times (docs/results/speed_search.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

from games.compiled import INTERPRETED

__all__ = ["prefetch"]

_READ, _KEEP, _DATA = 0, 3, 1  # arguments of llvm.prefetch: read access, highest locality, data cache


def _interpreted(vector: np.ndarray, index: int) -> None:
    """Do nothing: prefetching affects speed only."""


@intrinsic
def _compiled(context: Any, vector: Any, index: Any) -> Any:
    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = target.make_array(signature.args[0])(target, builder, arguments[0])
        number, address = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [address, number, number, number])
        declare: Any = cgutils.get_or_insert_function
        function = declare(builder.module, kind, "llvm.prefetch.p0i8")
        word = builder.bitcast(builder.gep(array.data, [arguments[1]]), address)
        builder.call(function, [word, number(_READ), number(_KEEP), number(_DATA)])
        return target.get_dummy_value()

    return types.void(vector, index), generate


prefetch: Callable[[np.ndarray, int], None] = _interpreted if INTERPRETED else cast("Any", _compiled)
"""Prefetch the cache line of an entry of a contiguous vector, from compiled code; any index is allowed, as nothing is read."""
