"""Dataclasses whose classes cost little to make. Pure.

The standard library compiles six functions for each class, which takes 0.8 ms. A broker has 250
such classes, a third of its start, and has instances of few of them before its first request. Here
only `__init__` is compiled, and not before the first instance; equality, hash and representation
work by the names of the fields. What a dataclass means is the standard library's, and so is what
mypy knows of it. `fields`, `replace` and `asdict` are the standard library's, too: it is asked for
the fields of a class when somebody wants them.

Left out, as nothing here uses it: ordering, `InitVar`, `KW_ONLY`, classes without slots.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import (
    MISSING,
    Field,
    FrozenInstanceError,
    asdict,
    field,
    fields,
    is_dataclass,
    replace,
)
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeVar, cast, get_origin

__all__ = ["asdict", "dataclass", "field", "fields", "is_dataclass", "replace"]

C = TypeVar("C", bound=type)

_SHAPE: Final = "__dataclass_shape__"
_FIELDS: Final = "__dataclass_fields__"


class _Shape(NamedTuple):
    """What a class and its bases declare, bases first."""

    # By field: its default, what `field` said of it, or MISSING.
    declared: dict[str, Any]
    keyword_only: frozenset[str]
    is_frozen: bool

    def names(self, purpose: str) -> list[str]:
        """The fields that take part in `init`, `repr` or `compare`."""
        return [
            name
            for name, each in self.declared.items()
            if not isinstance(each, Field) or getattr(each, purpose)
        ]


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        *, slots: bool, frozen: bool = False, kw_only: bool = False, eq: bool = True
    ) -> Callable[[C], C]:
        assert slots, "a class without slots is larger, and takes misspelt names"
        return lambda cls: _made(cls, is_frozen=frozen, is_keyword_only=kw_only, has_eq=eq)


def _made(cls: type, *, is_frozen: bool, is_keyword_only: bool, has_eq: bool) -> type:
    own = _declared(cls)
    shape = _with_bases(cls, own, is_frozen=is_frozen, is_keyword_only=is_keyword_only)
    inherited = {name for base in cls.__mro__[1:] for name in vars(base).get("__slots__", ())}
    dropped = {"__dict__", "__weakref__", *own}  # A default would stand in the way of its slot.
    content = {name: each for name, each in vars(cls).items() if name not in dropped}
    content["__qualname__"] = cls.__qualname__
    content["__slots__"] = tuple(name for name in own if name not in inherited)
    content["__match_args__"] = tuple(
        name for name in shape.names("init") if name not in shape.keyword_only
    )
    content[_SHAPE] = shape
    content[_FIELDS] = _FieldsWhenAsked()
    content.setdefault("__repr__", _repr)
    if has_eq:
        _add_comparison(content, shape)
    if is_frozen:
        content = {**_FROZEN, **content}
    # A class gets its slots when it is made, and at no other time.
    made = type(cls)(cls.__name__, cls.__bases__, content)
    if "__init__" not in content:
        made.__init__ = _first_init(made, shape)  # type: ignore[misc]
    return made


def _declared(cls: type) -> dict[str, Any]:
    own = {}
    for name, annotation in _own_annotations(cls).items():
        if annotation is ClassVar or get_origin(annotation) is ClassVar:
            continue
        own[name] = default = vars(cls).get(name, MISSING)
        if type(default).__hash__ is None:
            raise ValueError(f"{cls.__name__}.{name}: a mutable default needs a default_factory")
    return own


def _own_annotations(cls: type) -> dict[str, Any]:
    """What its body says. From Python 3.14 on they are not in `vars` until somebody asks the class
    for them (PEP 649); builtins have none."""
    return getattr(cls, "__annotations__", {})


def _with_bases(
    cls: type, own: dict[str, Any], *, is_frozen: bool, is_keyword_only: bool
) -> _Shape:
    declared: dict[str, Any] = {}
    keyword_only: frozenset[str] = frozenset()
    for base in reversed(cls.__mro__[1:]):
        shape: _Shape | None = vars(base).get(_SHAPE)
        if shape is not None:
            declared |= shape.declared
            keyword_only |= shape.keyword_only
    declared |= own
    keyword_only = keyword_only | own.keys() if is_keyword_only else keyword_only - own.keys()
    return _Shape(declared, keyword_only, is_frozen)


class _FieldsWhenAsked:
    """Stands in a class where the standard library looks for its fields, until it looks there."""

    def __get__(self, instance: object, owner: type) -> dict[str, Field[Any]]:
        mine = next(each for each in owner.__mro__ if vars(each).get(_FIELDS) is self)
        declared: dict[str, Any] = vars(mine)[_SHAPE].declared
        annotations: dict[str, Any] = {}
        for base in reversed(mine.__mro__):
            annotations |= _own_annotations(base)
        content = {name: each for name, each in declared.items() if each is not MISSING}
        content["__annotations__"] = {name: annotations[name] for name in declared}
        content["__doc__"] = mine.__name__  # Without one, the signature would be made into one.
        asked = dataclasses.dataclass(init=False, repr=False, eq=False)
        found: dict[str, Field[Any]] = getattr(asked(type(mine.__name__, (), content)), _FIELDS)
        setattr(mine, _FIELDS, found)
        return found


def _first_init(cls: type, shape: _Shape) -> Callable[..., None]:
    def __init__(self: object, *args: object, **kwargs: object) -> None:  # noqa: N807
        written = _write_init(cls, shape)
        cls.__init__ = written  # type: ignore[misc]
        written(self, *args, **kwargs)

    return __init__


def _write_init(cls: type, shape: _Shape) -> Callable[..., None]:
    by_place, by_name, body = ["self"], list[str](), list[str]()
    known: dict[str, Any] = {"_dc_set": object.__setattr__, "_dc_unset": MISSING}
    for name, each in shape.declared.items():
        taken, default, factory = True, each, cast(object, MISSING)
        if isinstance(each, Field):
            taken, default, factory = each.init, each.default, each.default_factory
        has_default = default is not MISSING or factory is not MISSING
        if taken:
            parameter = f"{name}=_dc_default_{name}" if has_default else name
            (by_name if name in shape.keyword_only else by_place).append(parameter)
        elif not has_default:
            continue  # `__post_init__` sets it.
        known[f"_dc_default_{name}"], known[f"_dc_make_{name}"] = default, factory
        value = name if taken else f"_dc_default_{name}"
        if factory is not MISSING:
            value = f"_dc_make_{name}() if {value} is _dc_unset else {value}"
        line = f'_dc_set(self, "{name}", {value})' if shape.is_frozen else f"self.{name} = {value}"
        body.append(line)
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*by_place, "*", *by_name] if by_name else by_place)
    exec(f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"]), known)
    written: Callable[..., None] = known.pop("__init__")
    written.__qualname__ = f"{cls.__qualname__}.__init__"
    return written


def _add_comparison(content: dict[str, Any], shape: _Shape) -> None:
    """What the class body defines stays. A hash that it lacks because it has `__eq__` is not."""
    names = shape.names("compare")
    compared: Callable[[object], object] = attrgetter(*names) if names else lambda _: ()

    def __eq__(self: object, other: object) -> bool:  # noqa: N807
        if other.__class__ is self.__class__:
            return compared(self) == compared(other)
        return NotImplemented

    def __hash__(self: object) -> int:  # noqa: N807
        return hash(compared(self))

    has_eq = "__eq__" in content
    if "__hash__" not in content or (has_eq and content["__hash__"] is None):
        content["__hash__"] = __hash__ if shape.is_frozen else None
    if not has_eq:
        content["__eq__"] = __eq__


@recursive_repr()
def _repr(self: object) -> str:
    shape: _Shape = getattr(self, _SHAPE)
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in shape.names("repr"))
    return f"{self.__class__.__qualname__}({shown})"


def _refuse_set(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _values(self: object) -> list[object]:
    return [getattr(self, name) for name in getattr(self, _SHAPE).declared]


def _take_values(self: object, values: list[object]) -> None:
    for name, value in zip(getattr(self, _SHAPE).declared, values, strict=True):
        object.__setattr__(self, name, value)


# Copies and pickles would set attributes.
_FROZEN: Final[dict[str, Any]] = {
    "__setattr__": _refuse_set,
    "__delattr__": _refuse_delete,
    "__getstate__": _values,
    "__setstate__": _take_values,
}
