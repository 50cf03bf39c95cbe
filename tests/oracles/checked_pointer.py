"""A pointer that knows its bounds: kernel sources run on it as plain Python. An oracle for tests.

Compiled, a kernel that reads one byte too far reads it; over these it raises.
"""

from collections.abc import Iterable


class OutOfBounds(Exception):
    """A kernel touched memory that is not its own."""


class CheckedPointer:
    """Exactly the given numbers, `width` bits each."""

    def __init__(self, numbers: Iterable[int], *, bits: int = 8, signed: bool = False) -> None:
        self.numbers = [int(number) for number in numbers]
        self._low = -(1 << (bits - 1)) if signed else 0
        self._high = (1 << (bits - 1)) if signed else 1 << bits

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < len(self.numbers):
            raise OutOfBounds(f"read at {index} of {len(self.numbers)}")
        return self.numbers[index]

    def __setitem__(self, index: int, value: int) -> None:
        if not 0 <= index < len(self.numbers):
            raise OutOfBounds(f"write at {index} of {len(self.numbers)}")
        if not self._low <= value < self._high:
            raise OutOfBounds(f"{value} written to a place of [{self._low}, {self._high})")
        self.numbers[index] = int(value)


def int64s(numbers: Iterable[int]) -> CheckedPointer:
    return CheckedPointer(numbers, bits=64, signed=True)


def int32s(numbers: Iterable[int]) -> CheckedPointer:
    return CheckedPointer(numbers, bits=32, signed=True)


def int16s(numbers: Iterable[int]) -> CheckedPointer:
    return CheckedPointer(numbers, bits=16, signed=True)


def uint64s(numbers: Iterable[int]) -> CheckedPointer:
    return CheckedPointer(numbers, bits=64)
