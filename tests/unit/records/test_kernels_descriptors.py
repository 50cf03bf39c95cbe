"""Descriptors: both sides agree on them, and they hold what they point to."""

import ctypes
import gc
import sys
import weakref

import numpy as np
import pytest

from ledgerstone.records.kernels import abi, loader
from ledgerstone.records.kernels.descriptors import (
    FIELD_BYTES,
    CleaningCall,
    Descriptor,
    FindCall,
    HashCall,
    RewriteCall,
    fields_of,
)
from ledgerstone.records.kernels.filling import Filled, filled, struct_of
from ledgerstone.types import Buffer
from tests.oracles.checked_pointer import CheckedPointer

DECLARED = sorted(
    {each for spec in abi.KERNELS for each in spec.arguments if not isinstance(each, str)},
    key=lambda declaration: declaration.__name__,
)


def finding(**changed: object) -> Filled:
    """The descriptor of a search for one key in an empty table."""
    fields = {
        "table": np.zeros(2, np.uint64),
        "slots": 2,
        "low": np.ones(1, np.uint64),
        "high": np.ones(1, np.uint64),
        "count": 1,
        "number": np.zeros(1, np.int64),
        "facts": np.zeros(3, np.uint64),
        "size": 0,
        "stride": 3,
        **changed,
    }
    return filled(FindCall, **fields)  # type: ignore[arg-type]


def hashing(window: Buffer) -> Filled:
    return filled(
        HashCall,
        buffer=window,
        split=len(window),
        arena=b"",
        end=len(window),
        start=np.zeros(1, np.int64),
        length=np.zeros(1, np.int32),
        count=1,
        report=np.zeros(1, np.int64),
        k0=0,
        k1=0,
        low=np.zeros(1, np.uint64),
        high=np.zeros(1, np.uint64),
        lanes=np.zeros(abi.LANE_WORDS, np.uint64),
    )


def test_kernel_takes_its_arguments_one_by_one_only_where_they_are_few() -> None:
    assert max(len(spec.arguments) for spec in abi.KERNELS) == 8


@pytest.mark.parametrize("declaration", DECLARED)
def test_field_lies_where_the_compiled_code_loads_it(declaration: type[Descriptor]) -> None:
    struct = struct_of(declaration)

    places = [getattr(struct, name).offset for name, _ in fields_of(declaration)]

    assert places == [FIELD_BYTES * index for index in range(len(places))]
    assert ctypes.sizeof(struct) == FIELD_BYTES * len(places)


def test_fields_of_a_base_class_come_first() -> None:
    base, derived = fields_of(RewriteCall), fields_of(CleaningCall)

    assert derived[: len(base)] == base


def test_kernel_reads_what_was_filled_in() -> None:
    number = np.zeros(1, np.int64)

    assert loader.kernel("find_keys")(finding(number=number)) == 0
    assert number.tolist() == [-1]


def test_kernel_takes_no_descriptor_but_its_own() -> None:
    with pytest.raises(ctypes.ArgumentError):
        loader.kernel("hash_keys")(finding())


def test_buffer_lives_as_long_as_the_descriptor_points_to_it() -> None:
    first, second = np.zeros(2, np.uint64), np.zeros(2, np.uint64)
    alive = [weakref.ref(first), weakref.ref(second)]
    call = finding(table=first)
    del first
    gc.collect()
    assert alive[0]() is not None

    call.set(table=second)
    del second
    gc.collect()
    assert alive[0]() is None
    assert alive[1]() is not None

    del call
    gc.collect()
    assert alive[1]() is None


def test_buffer_cannot_move_while_a_descriptor_points_to_it() -> None:
    window = bytearray(8)
    call = hashing(window)

    with pytest.raises(BufferError):
        window.extend(bytes(100))
    call.set(buffer=b"")
    window.extend(bytes(100))


def test_bytes_are_held_until_others_take_their_place() -> None:
    window = bytes(range(100))
    before = sys.getrefcount(window)

    call = hashing(window)
    assert sys.getrefcount(window) > before
    call.set(buffer=b"")
    assert sys.getrefcount(window) == before


def test_pointer_is_set_by_a_buffer_and_never_by_an_address() -> None:
    call = finding()

    with pytest.raises(TypeError, match="table: a buffer is wanted"):
        call.set(table=4096)
    with pytest.raises(AttributeError):
        call.table = 4096  # type: ignore[attr-defined]


def test_buffer_of_other_items_than_the_kernel_reads_is_refused() -> None:
    with pytest.raises(TypeError, match="table: items of 8 bytes are wanted, not of 4"):
        finding(table=np.zeros(4, np.uint32))


def test_buffer_with_gaps_is_refused() -> None:
    with pytest.raises(ValueError, match="not C-contiguous"):
        finding(low=np.zeros(4, np.uint64)[::2])


def test_missing_and_unknown_fields_are_refused() -> None:
    with pytest.raises(TypeError, match=r"FindCall: \['nonsense'\]"):
        finding(nonsense=1)
    with pytest.raises(TypeError, match=r"FindCall: .*'count'"):
        filled(FindCall, slots=1)
    with pytest.raises(TypeError, match=r"FindCall: .*'count'"):
        FindCall(slots=1, table=CheckedPointer(b""))  # type: ignore[call-arg]
    with pytest.raises(KeyError):
        finding().set(nonsense=1)
