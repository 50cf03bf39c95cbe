"""Values as bytes that sort as the values do, so that one column holds those of any type. Pure.

The least and the greatest of a group are found among its values, each with the number of rows that
have it: that is what a deleted row can be taken out of.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledgerstone.pipeline.streams.exact_sums import as_decimal
from ledgerstone.pipeline.streams.measures import Measure

_SIGN: Final = np.uint64(1 << 63)
_WORD: Final = 8


def ordered_bytes(array: pa.Array, measure: Measure) -> pa.Array:
    """None of the values is null."""
    match measure:
        case Measure.WHOLE:
            numbers = array.cast(pa.int64()).to_numpy(zero_copy_only=False)
            return _words([numbers.view(np.uint64) ^ _SIGN])
        case Measure.FLOAT:
            # A negative zero is zero, and one NaN is like another.
            numbers = array.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0
            numbers = np.where(np.isnan(numbers), np.nan, numbers)
            bits = numbers.view(np.uint64)
            return _words([np.where(bits & _SIGN, ~bits, bits | _SIGN)])
        case Measure.DECIMAL:
            words = np.frombuffer(array.buffers()[1], np.uint64)
            words = words[2 * array.offset : 2 * (array.offset + len(array))]
            return _words([words[1::2] ^ _SIGN, words[0::2]])
        case Measure.BOOLEAN:
            return pa.array([b"\1" if each else b"\0" for each in array.to_pylist()], pa.binary())
        case Measure.TEXT | Measure.BINARY:
            return array.cast(pa.binary())


def _words(words: list[NDArray[np.uint64]]) -> pa.Array:
    """Big-endian, the first word in front."""
    rows = len(words[0])
    content = np.stack(words, axis=1).astype(">u8").tobytes()
    width = _WORD * len(words)
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), rows, [None, pa.py_buffer(content)]
    )
    return fixed.cast(pa.binary())


def value_of(content: bytes, measure: Measure, scale: int) -> Any:  # noqa: ANN401 - of any type
    """`scale` is that of a decimal."""
    return _VALUES[measure](content, scale)


def _whole(content: bytes, scale: int) -> Any:  # noqa: ANN401 - a number
    number = int.from_bytes(content, "big") - (1 << 8 * len(content) - 1)
    return as_decimal(number, scale) if len(content) > _WORD else number


def _float(content: bytes, scale: int) -> float | str:
    del scale
    bits = int.from_bytes(content, "big")
    bits = bits ^ (1 << 63) if bits >> 63 else bits ^ ((1 << 64) - 1)
    number = float(np.array([bits], np.uint64).view(np.float64)[0])
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    return number


_VALUES: Final[Mapping[Measure, Callable[[bytes, int], Any]]] = {
    Measure.WHOLE: _whole,
    Measure.DECIMAL: _whole,
    Measure.FLOAT: _float,
    Measure.TEXT: lambda content, _: content.decode(),
    Measure.BINARY: lambda content, _: content,
    Measure.BOOLEAN: lambda content, _: content != b"\0",
}
