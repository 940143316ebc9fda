"""NumPy vectors as Arrow arrays and back, over the same memory.

Wherever pyarrow turns a Python value into one of its own, it looks for pandas on the whole import path,
and where pandas is not installed never stops looking: 0.3 ms each time, which for small requests is
more than all the rest. So vectors are handed over as memory, and constants are made once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def arrow(values: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """The Arrow array of a vector of numbers or booleans; null where not `valid`."""
    if values.dtype == np.bool_:
        kind, memory = pa.bool_(), np.packbits(values, bitorder="little")
    else:
        kind, memory = pa.from_numpy_dtype(values.dtype), np.ascontiguousarray(values)
    validity = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(memory)])


def booleans(values: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """A column of booleans without nulls as a vector."""
    vector: npt.NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return vector


@cache
def constant(value: str | bytes | int | bool) -> pa.Scalar:
    """A constant, made once."""
    return pa.scalar(value)


NO_TEXT = pa.scalar(None, pa.string())
NO_BYTES = pa.scalar(None, pa.binary())
NO_NUMBER = pa.scalar(None, pa.float64())
NO_FLAG = pa.scalar(None, pa.bool_())


@cache
def words(values: tuple[str, ...]) -> pa.StringArray:
    """A small fixed set of words as a column, made once."""
    return pa.array(values, pa.string())
