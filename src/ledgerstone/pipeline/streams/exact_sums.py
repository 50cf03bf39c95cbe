"""Sums that lose nothing and can be taken back: whole numbers, decimals and floats. Pure.

A sum is a whole number of units: ones, the last digit of a decimal, or 2^-1126, of which every
float has a whole number. So adding and subtracting in any order gives the same sum, and a float is
rounded once, when it is shown. Columns are added up without an object per row, in limbs of 32 bits
that cannot overflow.
"""

from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

# Enough for the sum of any number of decimals with 38 digits, and for an average of them.
EXACT: Final = Context(prec=100, rounding=ROUND_HALF_UP)
_LIMB: Final = 32
_MASK: Final = (1 << _LIMB) - 1
_MANTISSA_BITS: Final = 53
# The exponent of the last bit of the smallest float, as `frexp` gives it.
FLOAT_UNIT: Final = 1126
_EXPONENTS: Final = 1 << 12


class ExactSum(NamedTuple):
    units: int = 0
    nans: int = 0
    infinities: int = 0
    negative_infinities: int = 0

    def plus(self, other: "ExactSum") -> "ExactSum":
        return ExactSum(*(one + more for one, more in zip(self, other, strict=True)))

    def text(self) -> str:
        """Readable, and short: 5p1126 is 5 times 2^1126 units."""
        zeros = (self.units & -self.units).bit_length() - 1 if self.units else 0
        shift = zeros if zeros > 2 * _LIMB else 0
        said = f"{self.units >> shift}" + (f"p{shift}" if shift else "")
        specials = self[1:]
        return said + ("".join(f" {each}" for each in specials) if any(specials) else "")

    def as_float(self) -> float | str:
        """The nearest float; what is no number is told in words, as Spark's to_json does it."""
        if self.nans or (self.infinities and self.negative_infinities):
            return "NaN"
        if self.infinities:
            return "Infinity"
        if self.negative_infinities:
            return "-Infinity"
        return nearest(Fraction(self.units, 1 << FLOAT_UNIT))


def nearest(number: Fraction) -> float | str:
    try:
        return number.numerator / number.denominator
    except OverflowError:
        return "Infinity" if number > 0 else "-Infinity"


def sum_of_text(text: str) -> ExactSum:
    said, *specials = text.split(" ")
    number, _, shift = said.partition("p")
    return ExactSum(int(number) << int(shift or 0), *map(int, specials))


def as_decimal(units: int, scale: int) -> Decimal:
    return EXACT.scaleb(Decimal(units), -scale)


def grouped_sums(array: pa.Array, signs: Int64s, codes: Int64s, count: int) -> list[ExactSum]:
    """The sum of each of `count` groups; `codes` says of each row in which it is, `signs` whether
    it is added or taken away. Nulls are left out."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    if not valid.all():
        array, signs, codes = array.filter(pa.array(valid)), signs[valid], codes[valid]
    if pa.types.is_floating(array.type):
        return _float_sums(array.to_numpy(zero_copy_only=False), signs, codes, count)
    if pa.types.is_decimal(array.type):
        units = _added(_decimal_limbs(array), signs, codes)
    else:
        units = _added(_limbs(array.cast(pa.int64()).to_numpy(zero_copy_only=False)), signs, codes)
    return [ExactSum(units.get(code, 0)) for code in range(count)]


def _limbs(numbers: Int64s) -> list[Int64s]:
    return [numbers & _MASK, numbers >> _LIMB]


def _decimal_limbs(array: pa.Array) -> list[Int64s]:
    """128 bits, of which the last limb has the sign."""
    array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    words = np.frombuffer(array.buffers()[1], np.int64)
    words = words[2 * array.offset : 2 * (array.offset + len(array))]
    low, high = words[0::2], words[1::2]
    upper = (low.view(np.uint64) >> np.uint64(_LIMB)).astype(np.int64)
    return [low & _MASK, upper, *_limbs(high)]


def _added(limbs: list[Int64s], signs: Int64s, codes: Int64s) -> dict[int, int]:
    if not len(codes):
        return {}
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    sums = [np.add.reduceat((limb * signs)[order], starts).tolist() for limb in limbs]
    found = {}
    for at, code in enumerate(ordered[starts].tolist()):
        found[code] = sum(parts[at] << _LIMB * place for place, parts in enumerate(sums))
    return found


def _float_sums(
    numbers: NDArray[np.float64], signs: Int64s, codes: Int64s, count: int
) -> list[ExactSum]:
    numbers = numbers.astype(np.float64)
    finite = np.isfinite(numbers)
    mantissas, exponents = np.frexp(numbers[finite])
    whole = np.ldexp(mantissas, _MANTISSA_BITS).astype(np.int64)
    shifts = exponents.astype(np.int64) - _MANTISSA_BITS + FLOAT_UNIT
    by_exponent = _added(_limbs(whole), signs[finite], codes[finite] * _EXPONENTS + shifts)
    units = [0] * count
    for code, number in by_exponent.items():
        units[code // _EXPONENTS] += number << code % _EXPONENTS
    specials = [
        _counted(is_special & ~finite, signs, codes, count)
        for is_special in (np.isnan(numbers), numbers > 0, numbers < 0)
    ]
    return [ExactSum(*each) for each in zip(units, *specials, strict=True)]


def _counted(wanted: NDArray[np.bool_], signs: Int64s, codes: Int64s, count: int) -> list[int]:
    found = np.zeros(count, np.int64)
    np.add.at(found, codes[wanted], signs[wanted])
    return [int(each) for each in found]
