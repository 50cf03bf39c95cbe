"""Descriptors in memory, filled from Python. Pure.

A pointer is set by giving the buffer, never an address. The descriptor holds that buffer until
another takes its place, so an address in it is good for as long as the descriptor lives.
"""

import ctypes
from typing import TYPE_CHECKING, Any, Final

from ledgerstone.records.kernels.descriptors import Descriptor, fields_of
from ledgerstone.records.kernels.memory import borrow
from ledgerstone.types import Buffer

if TYPE_CHECKING:
    from array import array

    import numpy as np
    from numpy.typing import NDArray

    # What a field takes: memory for a pointer, else a number.
    Value = Buffer | NDArray[np.generic] | ctypes.Array[Any] | array[Any] | int

# ctypes takes bytes objects for a char pointer, and numbers.
_C_TYPES: Final = {"i64": ctypes.c_int64, "u64": ctypes.c_uint64}
# Bytes in an item of what a pointer points to; 0: the field is a number.
_ITEM_BYTES: Final = {"i64": 0, "u64": 0, "u8*": 1, "i16*": 2, "i32*": 4, "i64*": 8, "u64*": 8}


class Filled:
    """A descriptor that a kernel takes; `filled` makes one."""

    # ctypes looks for the first of these.
    __slots__ = ("_as_parameter_", "_held", "_item_bytes", "_struct")

    def __init__(self, declaration: type[Descriptor], values: "dict[str, Value]") -> None:
        fields = self._item_bytes = _item_bytes_of(declaration)
        # For each pointer the buffer, and what keeps it where it is.
        held: dict[str, tuple[object, object]] = {}
        words: list[object] = []
        if len(values) != len(fields):
            raise TypeError(f"{declaration.__name__}: {sorted(values.keys() ^ fields)}")
        for name, item_bytes in fields.items():
            value = values[name]
            if item_bytes == 0:
                words.append(value)
            else:
                address, pin = _located(name, value, item_bytes)
                words.append(address)
                held[name] = value, pin
        self._held = held
        self._struct = struct_of(declaration)(*words)
        self._as_parameter_ = ctypes.byref(self._struct)

    def set(self, **values: "Value") -> None:
        """Changes fields; the others stay. A buffer that is there already is not looked up."""
        fields, held, struct = self._item_bytes, self._held, self._struct
        for name, value in values.items():
            item_bytes = fields[name]
            if item_bytes == 0:
                setattr(struct, name, value)
            elif held[name][0] is not value:
                address, pin = _located(name, value, item_bytes)
                setattr(struct, name, address)
                held[name] = value, pin


def filled(declaration: type[Descriptor], **values: "Value") -> Filled:
    """A descriptor with every field set."""
    return Filled(declaration, values)


_STRUCTS: Final[dict[type[Descriptor], type[ctypes.Structure]]] = {}
_ITEMS: Final[dict[type[Descriptor], dict[str, int]]] = {}


def struct_of(declaration: type[Descriptor]) -> type[ctypes.Structure]:
    """The struct of a declaration: always the same class, so that a kernel takes no other."""
    known = _STRUCTS.get(declaration)
    if known is None:
        fields = [
            (name, _C_TYPES.get(kind, ctypes.c_char_p)) for name, kind in fields_of(declaration)
        ]
        known = type(declaration.__name__, (ctypes.Structure,), {"_fields_": fields})
        _STRUCTS[declaration] = known
    return known


def _item_bytes_of(declaration: type[Descriptor]) -> dict[str, int]:
    """By the name of a field: the bytes in an item of what it points to; 0: it is a number."""
    known = _ITEMS.get(declaration)
    if known is None:
        known = {name: _ITEM_BYTES[kind] for name, kind in fields_of(declaration)}
        _ITEMS[declaration] = known
    return known


# Looked up once: every pointer of every call goes through here.
_array: Final = ctypes.Array
_byte_in: Final = ctypes.c_char.from_buffer
_address_of: Final = ctypes.addressof


def _located(name: str, value: Any, item_bytes: int) -> tuple[int | bytes, object]:  # noqa: ANN401
    """(address, what keeps it good)."""
    if type(value) is bytes and item_bytes == 1:
        # ctypes knows where the bytes of a bytes object are.
        return value, value
    address: int | bytes
    pin: object
    if isinstance(value, _array):
        found, address, pin = ctypes.sizeof(value._type_), _address_of(value), value
    elif isinstance(value, int):
        raise TypeError(f"{name}: a buffer is wanted, not {value}")
    else:
        found = getattr(value, "itemsize", 1)
        try:
            # Only the start matters: one byte's worth of export pins the whole buffer.
            pin = byte = _byte_in(value)
            address = _address_of(byte)
        except (TypeError, ValueError):
            # Read-only, empty, or with gaps, which `borrow` refuses.
            address, pin = borrow(value)
    if found != item_bytes != 1:
        raise TypeError(f"{name}: items of {item_bytes} bytes are wanted, not of {found}")
    return address, pin
