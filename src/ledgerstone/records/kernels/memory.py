"""Addresses of Python buffers, without copies and without numpy. Pure.

`borrow` pins a buffer: as long as the second thing it returns is alive, the address stays good.
"""

import ctypes
from typing import TYPE_CHECKING, Final

from ledgerstone.types import Buffer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# What a kernel's pointer argument takes.
Address = int | bytes
# The same, made once for many calls.
Place = ctypes.c_void_p | bytes

_PYBUF_SIMPLE: Final = 0


class _PyBuffer(ctypes.Structure):
    """CPython's Py_buffer, part of its stable ABI."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


# Prototypes of our own: setting argtypes on ctypes.pythonapi would change them for everybody.
_get_buffer = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int
)(("PyObject_GetBuffer", ctypes.pythonapi))
_release_buffer = ctypes.PYFUNCTYPE(None, ctypes.POINTER(_PyBuffer))(
    ("PyBuffer_Release", ctypes.pythonapi)
)


class _Export:
    """A buffer export held through the C API: the road for memory that may not be written."""

    __slots__ = ("address", "view")

    def __init__(self, buffer: Buffer) -> None:
        self.view = _PyBuffer()
        _get_buffer(buffer, self.view, _PYBUF_SIMPLE)
        self.address: int = self.view.buf or 0

    def __del__(self) -> None:
        _release_buffer(self.view)


def borrow(buffer: Buffer) -> tuple[Address, object]:
    """(address, what keeps it valid). A strided buffer is refused with BufferError or TypeError."""
    if type(buffer) is bytes:
        # ctypes knows where the bytes of a bytes object are.
        return buffer, buffer
    try:
        # Only the start matters: one byte's worth of export pins the whole buffer.
        byte = ctypes.c_char.from_buffer(buffer)
    except (TypeError, ValueError):
        # Read-only, or empty.
        export = _Export(buffer)
        return export.address, export
    return ctypes.addressof(byte), byte


class Pinned:
    """The address of a buffer that comes again and again, looked up when another one comes.

    A kernel takes it faster than a number, and a buffer whose address is known stays where it is.
    """

    __slots__ = ("_address", "_buffer", "_pin")

    def __init__(self) -> None:
        self._buffer: object = None
        self._pin: object = None
        self._address: Place = b""

    def at(self, buffer: "Buffer | NDArray[np.generic]") -> Place:
        if buffer is not self._buffer:
            plain = buffer if isinstance(buffer, bytes | bytearray | memoryview) else buffer.data
            address, self._pin = borrow(plain)
            self._address = ctypes.c_void_p(address) if isinstance(address, int) else address
            self._buffer = buffer
        return self._address
