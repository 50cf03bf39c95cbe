"""Descriptors as numba sees them: `call.rows` is a load from the struct. Shell: a build's.

The loads are marked as invariant: nothing writes to a descriptor during a call, so LLVM may load a
field once, whatever is stored between two uses.
"""

import importlib
from typing import Any, Final

from llvmlite import ir

from ledgerstone.records.kernels.descriptors import FIELD_BYTES, Descriptor, fields_of

# As Any: numba's own annotations cover only part of what is used here.
types: Any = importlib.import_module("numba.types")
cgutils: Any = importlib.import_module("numba.core.cgutils")
imputils: Any = importlib.import_module("numba.core.imputils")
extending: Any = importlib.import_module("numba.extending")
templates: Any = importlib.import_module("numba.core.typing.templates")

NUMBA_TYPES: Final = {
    "i64": types.int64,
    "u64": types.uint64,
    "u8*": types.CPointer(types.uint8),
    "i16*": types.CPointer(types.int16),
    "i32*": types.CPointer(types.int32),
    "i64*": types.CPointer(types.int64),
    "u64*": types.CPointer(types.uint64),
}


class DescriptorType(types.Type):  # type: ignore[misc]
    """The address of a descriptor."""

    def __init__(self, declaration: type[Descriptor]) -> None:
        self.declaration = declaration
        self.fields = {
            name: (index * FIELD_BYTES, NUMBA_TYPES[kind])
            for index, (name, kind) in enumerate(fields_of(declaration))
        }
        super().__init__(name=declaration.__name__)


def as_declared(given: Any, annotation: object) -> Any:  # noqa: ANN401 - numba's types
    """A helper that asks for a base class gets it: its fields lie where they are, and the helper is
    translated once for all that derive from it."""
    if not isinstance(given, DescriptorType) or not isinstance(annotation, type):
        return given
    if annotation is given.declaration or not issubclass(given.declaration, annotation):
        return given
    return DescriptorType(annotation)


class _Model(extending.models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:  # noqa: ANN401
        super().__init__(manager, kind, cgutils.voidptr_t)


class _Fields(templates.AttributeTemplate):  # type: ignore[misc]
    key = DescriptorType

    def generic_resolve(self, kind: Any, name: str) -> Any:  # noqa: ANN401
        return kind.fields[name][1] if name in kind.fields else None


def _load(context: Any, builder: Any, kind: Any, address: Any, name: str) -> Any:  # noqa: ANN401
    at, field = kind.fields[name]
    place = builder.gep(address, [ir.IntType(64)(at)])
    wide = context.get_value_type(field).as_pointer()
    loaded = builder.load(builder.bitcast(place, wide))
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


def _same_address(*arguments: Any) -> Any:  # noqa: ANN401
    """Of context, builder, both types and the value."""
    return arguments[-1]


extending.register_model(DescriptorType)(_Model)
templates.infer_getattr(_Fields)
imputils.lower_getattr_generic(DescriptorType)(_load)
imputils.lower_cast(DescriptorType, DescriptorType)(_same_address)
