"""Makes the decoder of one message in one version: straight-line Python. Pure.

Fast: fields of fixed size are unpacked together, including the first byte of the length or count
that follows. Safe:

1. Positions only grow, and every read past the end raises or yields fewer bytes; one comparison at
   the very end detects it. So a length needs no check of its own.
2. A count is checked against the bytes left and the smallest size of its elements before the first
   element is made. In a request, all structs, strings and tagged fields together have a budget, and
   so have all numbers in arrays.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from ledgerstone.protocol.message import ZERO_UUID
from ledgerstone.protocol.notation import FieldSpec, MessageSpec, StructSpec
from ledgerstone.protocol.source import (
    FORMATS,
    CodecSource,
    has_records,
    min_element_size,
    tagged_in,
)
from ledgerstone.protocol.wire import (
    broken,
    read_uvarint,
    rest_of_uvarint,
    skip_counted_tags,
    skip_tags,
)

# An element costs up to a few hundred bytes of memory but as little as one byte on the wire.
MAX_REQUEST_ELEMENTS: Final = 1 << 16
# Most are partitions, each of which the answer has a struct for.
MAX_REQUEST_NUMBERS: Final = 1 << 17
# As in Kafka, even if the length allows more: what is read must also be writable.
LONGEST_STRING: Final = 32767
_NULL: Final = "broken('null where this version has none')"

Decode = Callable[[Any, int], tuple[Any, int]]


class DecoderSource:
    """Builds the source of one decoder. `run` holds fields to be read together on flush."""

    def __init__(self, spec: MessageSpec, version: int, classes: Mapping[str, type]) -> None:
        self.out = CodecSource(spec, version)
        self.version = version
        self.classes = classes
        self.from_view = has_records(spec.root, version)
        self.is_budgeted = spec.kind == "request"
        self.run: list[tuple[str, str]] = []
        self.out.names.update(
            broken=broken,
            rest=rest_of_uvarint,
            read_uvarint=read_uvarint,
            skip_tags=skip_tags,
            skip_counted_tags=skip_counted_tags,
            unpack_from=struct.unpack_from,
            zero_uuid=ZERO_UUID,
        )

    def build(self) -> Decode:
        out = self.out
        with out.block("def decode(data, pos):", "start"):
            out.add("end = len(data)", "start")
            if self.is_budgeted:
                out.add(f"budget = {MAX_REQUEST_ELEMENTS}", "start")
                out.add(f"numbers = {MAX_REQUEST_NUMBERS}", "start")
            value = self.struct(out.spec.root, "")
            out.add(f"message = {value}", "end")
            out.add("if pos > end: broken(f'ends {pos - end} bytes past the frame')", "end")
            out.add("return message, pos", "end")
        return out.compile("decode")

    def take(self, formats: str, stem: str) -> str:
        name = self.out.fresh(stem)
        self.run.append((formats, name))
        return name

    def flush(self, subject: str) -> None:
        run, self.run = self.run, []
        if not run:
            return
        formats = "".join(each for each, _ in run)
        if formats == "B":
            self.out.add(f"{run[0][1]} = data[pos]", subject)
            self.out.add("pos += 1", subject)
            return
        targets = "".join(f"{name}, " for _, name in run)
        self.out.add(f"{targets}= {self.out.unpacker(formats)}(data, pos)", subject)
        self.out.add(f"pos += {struct.calcsize('>' + formats)}", subject)

    def struct(self, one: StructSpec, path: str) -> str:
        """Reads a struct; returns the expression that makes it."""
        values = {
            each.name: self.field(each, f"{path}{each.name}")
            for each in one.fields_in(self.version)
            if each.tag is None
        }
        if self.out.flexible:
            values |= self.tags(tagged_in(one, self.version), path)
        self.flush(path + "…")
        made = self.out.name_of(one.name, self.classes[one.name])
        arguments = (values.get(each.name) or self.absent(each) for each in one.fields)
        return f"{made}({', '.join(arguments)})"

    def absent(self, each: FieldSpec) -> str:
        """The value of a field that is not sent: its default."""
        if each.default is not None:
            return repr(each.default)
        if each.ever_null or each.starts_absent or each.type == "records":
            return "None"
        if each.is_array:
            return "[]"
        if each.struct is not None:
            return f"{self.out.name_of(each.type, self.classes[each.type])}()"
        zeros = {"bool": "False", "f64": "0.0", "uuid": "zero_uuid", "str": "''", "bytes": "b''"}
        return zeros.get(each.type, "0")

    def tags(self, known: list[FieldSpec], path: str) -> dict[str, str]:
        out, subject = self.out, f"{path}tags"
        count = self.take("B", "tags")
        self.flush(subject)
        if not known:
            if self.is_budgeted:
                with out.block(f"if {count}:", subject):
                    self.count_tags(count, subject)
                    out.add(f"pos = skip_counted_tags(data, pos, {count})", subject)
            else:
                out.add(f"if {count}: pos = skip_tags(data, pos, {count})", subject)
            return {}
        values = {each.name: out.fresh(each.name) for each in known}
        for each in known:
            out.add(f"{values[each.name]} = {self.absent(each)}", subject)
        with out.block(f"if {count}:", subject):
            self.count_tags(count, subject)
            with out.block(f"for _ in range({count}):", subject):
                self.one_tag(known, values, path)
        return values

    def count_tags(self, count: str, subject: str) -> None:
        """The name has the first byte of the count, and after it all of the count."""
        self.out.add(f"if {count} > 127: {count}, pos = rest(data, pos, {count})", subject)
        if self.is_budgeted:
            self.out.add(f"budget -= {count}", subject)
            reason = f"broken(f'too many elements with {{{count}}} tagged fields')"
            self.out.add(f"if budget < 0: {reason}", subject)

    def one_tag(self, known: list[FieldSpec], values: dict[str, str], path: str) -> None:
        out, subject = self.out, f"{path}tags"
        tag, size, stop = out.fresh("tag"), out.fresh("size"), out.fresh("stop")
        out.add(f"{tag}, pos = read_uvarint(data, pos)", subject)
        out.add(f"{size}, pos = read_uvarint(data, pos)", subject)
        out.add(f"{stop} = pos + {size}", subject)
        out.add(f"if {stop} > end: broken('a tagged field ends past the message')", subject)
        for index, each in enumerate(known):
            with out.block(f"{'elif' if index else 'if'} {tag} == {each.tag}:", subject):
                value = self.field(each, f"{path}{each.name}")
                self.flush(f"{path}{each.name}")
                out.add(f"{values[each.name]} = {value}", subject)
                reason = f"broken(f'tag {each.tag} has {{{size}}} bytes')"
                out.add(f"if pos != {stop}: {reason}", f"{path}{each.name}")
        out.add(f"else: pos = {stop}", subject)

    def field(self, each: FieldSpec, path: str) -> str:
        """Reads a field; returns the name or the expression that has its value."""
        nullable = each.nullable.has(self.version)
        if each.is_array:
            return self.array(each, path, nullable=nullable)
        if each.struct is not None:
            return self.one_struct(each.struct, path, nullable=nullable)
        if each.type in FORMATS:
            return self.take(FORMATS[each.type], each.name)
        return self.sized(each.type, path, each.name, nullable=nullable)

    def one_struct(self, one: StructSpec, path: str, *, nullable: bool) -> str:
        value = self.out.fresh("struct")
        if not nullable:
            made = self.struct(one, path + ".")
            self.out.add(f"{value} = {made}", path)
            return value
        marker = self.take("b", "marker")
        self.flush(path)
        with self.out.block(f"if {marker} >= 0:", path):
            made = self.struct(one, path + ".")
            self.out.add(f"{value} = {made}", path)
        self.out.add(f"else: {value} = None", path)
        return value

    def length(self, path: str, rigid_format: str, longest: int | None = None) -> str:
        """Reads a length or count; in flexible versions the name holds it plus one."""
        if not self.out.flexible:
            name = self.take(rigid_format, "n")
            self.flush(path)
            return name
        name = self.take("B", "n")
        self.flush(path)
        with self.out.block(f"if {name} > 127:", path):
            self.out.add(f"{name}, pos = rest(data, pos, {name})", path)
            if longest is not None:
                # Only here, as a length of one byte is never too long.
                reason = f"broken(f'a string of {{{name} - 1}} bytes')"
                self.out.add(f"if {name} > {longest + 1}: {reason}", path)
        return name

    def sized(self, kind: str, path: str, stem: str, *, nullable: bool) -> str:
        """A string, bytes or records."""
        out, value = self.out, self.out.fresh(stem)
        longest = LONGEST_STRING if kind == "str" else None
        count = self.length(path, "h" if kind == "str" else "i", longest)
        less = " - 1" if out.flexible else ""
        with out.block(f"if {count}:" if out.flexible else f"if {count} >= 0:", path):
            out.add(f"stop = pos + {count}{less}", path)
            if kind != "str":
                reason = f"broken(f'{{{count}{less}}} bytes announced, {{end - pos}} left')"
                out.add(f"if stop > end: {reason}", path)
            out.add(f"{value} = {self.slice(kind)}", path)
            out.add("pos = stop", path)
        self.null_case(count, value, path, nullable=nullable)
        return value

    def slice(self, kind: str) -> str:
        match kind, self.from_view:
            case "str", True:
                return "str(data[pos:stop], 'utf-8')"
            case "str", False:
                return "data[pos:stop].decode()"
            case "bytes", True:
                return "data[pos:stop].tobytes()"
        return "data[pos:stop]"

    def null_case(self, count: str, value: str, path: str, *, nullable: bool) -> None:
        if nullable and self.out.flexible:
            self.out.add(f"else: {value} = None", path)
            return
        if nullable:
            self.out.add(f"elif {count} == -1: {value} = None", path)
        wrong = _NULL if self.out.flexible else f"broken(f'length {{{count}}}')"
        self.out.add(f"else: {wrong}", path)

    def array(self, each: FieldSpec, path: str, *, nullable: bool) -> str:
        out, items = self.out, self.out.fresh(each.name)
        count = self.length(path, "i")
        with out.block(f"if {count}:" if out.flexible else f"if {count} >= 0:", path):
            if out.flexible:
                out.add(f"{count} -= 1", path)
            self.check_count(each, count, path)
            self.elements(each, count, items, path)
        self.null_case(count, items, path, nullable=nullable)
        return items

    def check_count(self, each: FieldSpec, count: str, path: str) -> None:
        smallest = min_element_size(each, self.version, flexible=self.out.flexible)
        too_many = f"{count} * {smallest} > end - pos"
        if self.is_budgeted:
            left = "numbers" if each.type in FORMATS else "budget"
            self.out.add(f"{left} -= {count}", path)
            too_many += f" or {left} < 0"
        reason = f"broken(f'{{{count}}} elements in {{end - pos}} bytes')"
        self.out.add(f"if {too_many}: {reason}", path)

    def elements(self, each: FieldSpec, count: str, items: str, path: str) -> None:
        out = self.out
        if each.type in FORMATS:
            formats = FORMATS[each.type]
            width = struct.calcsize(">" + formats)
            each_format = f"f'>{{{count}}}{formats}'" if width < 16 else f"'>' + '16s' * {count}"
            out.add(f"{items} = list(unpack_from({each_format}, data, pos))", path)
            out.add(f"pos += {count} * {width}", path)
            return
        out.add(f"{items} = []", path)
        with out.block(f"for _ in range({count}):", path):
            if each.struct is not None:
                value = self.struct(each.struct, path + ".")
            else:
                value = self.sized(each.type, path, each.name, nullable=False)
            out.add(f"{items}.append({value})", path)
