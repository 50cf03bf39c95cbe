"""Python source under construction: lines, the field each line handles, the names it uses. Pure.

Compiled codecs do not report fields themselves; when one fails, the failing line identifies it.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.protocol.notation import FieldSpec, MessageSpec, StructSpec

FORMATS: Final = {
    "bool": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u16": "H", "u32": "I",
    "f64": "d", "uuid": "16s",
}  # fmt: skip


@dataclass(slots=True)
class CodecSource:
    spec: MessageSpec
    version: int
    lines: list[str] = field(default_factory=list)
    subjects: list[str] = field(default_factory=list)  # subjects[n]: what line n + 1 is about
    names: dict[str, Any] = field(default_factory=dict)
    depth: int = 0
    counter: int = 0

    @property
    def flexible(self) -> bool:
        return self.spec.is_flexible(self.version)

    def add(self, text: str, subject: str) -> None:
        self.lines.append("    " * self.depth + text)
        self.subjects.append(subject)

    @contextmanager
    def block(self, head: str, subject: str) -> Iterator[None]:
        self.add(head, subject)
        self.depth += 1
        yield
        self.depth -= 1

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}_{self.counter}"

    def name_of(self, stem: str, value: object) -> str:
        """A name under which the compiled code finds `value`."""
        known = self.names.setdefault(stem, value)
        if known is not value:
            raise AssertionError(f"{stem} names two things: {known!r} and {value!r}")
        return stem

    def packer(self, formats: str) -> str:
        return self._method("pack", formats, struct.Struct(">" + formats).pack)

    def unpacker(self, formats: str) -> str:
        return self._method("unpack", formats, struct.Struct(">" + formats).unpack_from)

    def _method(self, verb: str, formats: str, method: Any) -> str:  # noqa: ANN401
        stem = f"{verb}_{formats.replace('?', 'Z')}"
        self.names.setdefault(stem, method)
        return stem

    def compile(self, function: str) -> Callable[..., Any]:
        title = f"<{self.spec.name} v{self.version} {function}>"
        exec(compile("\n".join(self.lines), title, "exec"), self.names)
        compiled: Callable[..., Any] = self.names[function]
        return compiled


def min_size(each: FieldSpec, version: int, *, flexible: bool) -> int:
    """The fewest bytes this field can take, which bounds the count of an array."""
    if each.is_array:
        return 1 if flexible else 4
    if each.struct is not None:
        if each.nullable.has(version):
            return 1
        return min_struct_size(each.struct, version, flexible=flexible)
    return min_element_size(each, version, flexible=flexible)


def min_element_size(each: FieldSpec, version: int, *, flexible: bool) -> int:
    if each.struct is not None:
        return min_struct_size(each.struct, version, flexible=flexible)
    if each.type in FORMATS:
        return struct.calcsize(">" + FORMATS[each.type])
    if flexible:
        return 1
    return 2 if each.type == "str" else 4


def min_struct_size(one: StructSpec, version: int, *, flexible: bool) -> int:
    plain = (each for each in one.fields_in(version) if each.tag is None)
    size = sum(min_size(each, version, flexible=flexible) for each in plain)
    return size + 1 if flexible else size


def tagged_in(one: StructSpec, version: int) -> list[FieldSpec]:
    tagged = [each for each in one.fields_in(version) if each.tag is not None]
    return sorted(tagged, key=lambda each: each.tag or 0)


def has_records(one: StructSpec, version: int) -> bool:
    return any(
        each.type == "records" or (each.struct is not None and has_records(each.struct, version))
        for each in one.fields_in(version)
    )
