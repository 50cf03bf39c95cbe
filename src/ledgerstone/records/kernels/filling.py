"""Descriptors in memory, filled from Python. Pure.

A pointer is set by giving the buffer, never an address. The descriptor holds that buffer until
another takes its place, so an address in it is good for as long as the descriptor lives.
"""

import ctypes
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ledgerstone.records.kernels.descriptors import Descriptor, fields_of
from ledgerstone.records.kernels.memory import borrow
from ledgerstone.types import Buffer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    # What a field takes: memory for a pointer, else a number.
    Value = Buffer | NDArray[np.generic] | ctypes.Array[Any] | int

# ctypes takes bytes objects for a char pointer, and numbers.
_C_TYPES: Final = {"i64": ctypes.c_int64, "u64": ctypes.c_uint64}
# Bytes in an item of what a pointer points to; 0: the field is a number.
_ITEM_BYTES: Final = {"i64": 0, "u64": 0, "u8*": 1, "i16*": 2, "i32*": 4, "i64*": 8, "u64*": 8}
_NOTHING: Final = (None, None)


class Filled(ctypes.Structure):
    """A descriptor that a kernel takes; `filled` makes one."""

    _item_bytes: ClassVar[dict[str, int]] = {}
    _held: dict[str, tuple[object, object]]

    def set(self, **values: "Value") -> None:
        """Changes fields; the others stay. A buffer that is there already is not looked up."""
        held = self._held
        for name, value in values.items():
            item_bytes = self._item_bytes[name]
            if item_bytes == 0:
                _put(self, name, value)
            elif held.get(name, _NOTHING)[0] is not value:
                address, pin = _located(name, value, item_bytes)
                _put(self, name, address)
                held[name] = value, pin

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: fields are set by set(), which holds the buffers")


_put: Final = ctypes.Structure.__setattr__
_STRUCTS: Final[dict[type[Descriptor], type[Filled]]] = {}


def filled(declaration: type[Descriptor], **values: "Value") -> Filled:
    """A descriptor with every field set."""
    made = struct_of(declaration)()
    if values.keys() != made._item_bytes.keys():
        raise TypeError(f"{declaration.__name__}: {sorted(values.keys() ^ made._item_bytes)}")
    _put(made, "_held", {})
    made.set(**values)
    return made


def struct_of(declaration: type[Descriptor]) -> type[Filled]:
    """The struct of a declaration: always the same class, so that a kernel takes no other."""
    known = _STRUCTS.get(declaration)
    if known is not None:
        return known
    fields = fields_of(declaration)
    members = {
        "_fields_": [(name, _C_TYPES.get(kind, ctypes.c_char_p)) for name, kind in fields],
        "_item_bytes": {name: _ITEM_BYTES[kind] for name, kind in fields},
    }
    made = _STRUCTS[declaration] = type(declaration.__name__, (Filled,), members)
    return made


def _located(name: str, value: "Value", item_bytes: int) -> tuple[int | bytes, object]:
    """(address, what keeps it good)."""
    if isinstance(value, int):
        raise TypeError(f"{name}: a buffer is wanted, not {value}")
    if type(value) is bytes and item_bytes == 1:
        return value, value
    # numpy's arrays are buffers too, whatever their type says.
    view = memoryview(value)  # type: ignore[arg-type]
    if item_bytes not in (1, view.itemsize):
        raise TypeError(f"{name}: items of {item_bytes} bytes are wanted, not of {view.itemsize}")
    return borrow(view)
