"""Makes the encoder of one message in one version: straight-line Python. Pure.

Fields of fixed size are packed together, along with a one-byte length or count that follows them;
an empty tag section is a pad byte of the same pack. Tagged fields at their default are left out.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any

from ledgerstone.protocol.message import ZERO_UUID
from ledgerstone.protocol.notation import FieldSpec, MessageSpec, StructSpec
from ledgerstone.protocol.pieces import Piece, add_payload, payload_size
from ledgerstone.protocol.source import FORMATS, CodecSource, tagged_in
from ledgerstone.protocol.wire import ONE_BYTE, uvarint

Encode = Callable[[Any], list[Piece]]


class EncoderSource:
    """Builds the source of one encoder. `run` holds fields to be packed together on flush."""

    def __init__(self, spec: MessageSpec, version: int, classes: Mapping[str, type]) -> None:
        self.out = CodecSource(spec, version)
        self.version = version
        self.classes = classes
        self.run: list[tuple[str, str]] = []
        self.parts = "parts"
        self.out.names.update(
            one_byte=ONE_BYTE,
            uvarint=uvarint,
            pack=struct.pack,
            add_payload=add_payload,
            payload_size=payload_size,
            zero_uuid=ZERO_UUID,
        )

    def build(self) -> Encode:
        out = self.out
        with out.block("def encode(message):", "start"):
            out.add("parts = []", "start")
            out.add("write = parts.append", "start")
            self.struct(out.spec.root, "message", "")
            self.flush("end")
            out.add("return parts", "end")
        return out.compile("encode")

    @property
    def write(self) -> str:
        return "write" if self.parts == "parts" else f"{self.parts}.append"

    def put(self, formats: str, expression: str) -> None:
        self.run.append((formats, expression))

    def flush(self, subject: str) -> None:
        run, self.run = self.run, []
        if run:
            self.out.add(f"{self.write}({self.packed(run)})", subject)

    def packed(self, run: list[tuple[str, str]]) -> str:
        formats = "".join(each for each, _ in run)
        if formats in ("x", "B"):
            return f"one_byte[{run[0][1] or 0}]"
        values = ", ".join(expression for _, expression in run if expression)
        return f"{self.out.packer(formats)}({values})"

    def flush_with_length(self, name: str, rigid_format: str, subject: str) -> None:
        """Writes the run, then the length or count in `name`, already incremented."""
        if not self.out.flexible:
            self.put(rigid_format, name)
            self.flush(subject)
            return
        before, self.run = self.run, []
        if before:
            short = self.packed([*before, ("B", name)])
            long = f"{self.packed(before)} + uvarint({name})"
        else:
            short, long = f"one_byte[{name}]", f"uvarint({name})"
        self.out.add(f"{self.write}({short} if {name} < 128 else {long})", subject)

    def struct(self, one: StructSpec, owner: str, path: str) -> None:
        for each in one.fields_in(self.version):
            if each.tag is None:
                self.field(each, f"{owner}.{each.name}", f"{path}{each.name}")
        if self.out.flexible:
            self.tags(tagged_in(one, self.version), owner, path)

    def field(self, each: FieldSpec, expression: str, path: str) -> None:
        nullable = each.nullable.has(self.version)
        if each.is_array:
            self.array(each, expression, path, nullable=nullable)
        elif each.struct is not None:
            self.one_struct(each.struct, expression, path, nullable=nullable)
        elif each.type in FORMATS:
            self.put(FORMATS[each.type], expression)
        else:
            self.sized(each.type, expression, path, nullable=nullable)

    def one_struct(self, one: StructSpec, expression: str, path: str, *, nullable: bool) -> None:
        value = self.out.fresh("struct")
        self.out.add(f"{value} = {expression}", path)
        if not nullable:
            self.struct(one, value, path + ".")
            return
        self.flush(path)
        with self.out.block(f"if {value} is None:", path):
            self.put("b", "-1")
            self.flush(path)
        with self.out.block("else:", path):
            self.put("b", "1")
            self.struct(one, value, path + ".")
            self.flush(path)

    def count(self, value: str, size: str, path: str, *, nullable: bool) -> str:
        """Computes a length or count as it is stored, null included; returns its name."""
        name = self.out.fresh("n")
        stored, null = (f"{size} + 1", "0") if self.out.flexible else (size, "-1")
        if nullable:
            self.out.add(f"{name} = {null} if {value} is None else {stored}", path)
        else:
            self.out.add(f"{name} = {stored}", path)
        return name

    def sized(self, kind: str, expression: str, path: str, *, nullable: bool) -> None:
        out, value = self.out, self.out.fresh("value")
        if not nullable:
            suffix = ".encode()" if kind == "str" else ""
            out.add(f"{value} = {expression}{suffix}", path)
            self.sized_value(kind, value, path)
            return
        before = list(self.run)
        out.add(f"{value} = {expression}", path)
        with out.block(f"if {value} is None:", path):
            self.put(*self.null_length(kind))
            self.flush(path)
        with out.block("else:", path):
            self.run = before
            if kind == "str":
                out.add(f"{value} = {value}.encode()", path)
            self.sized_value(kind, value, path)

    def null_length(self, kind: str) -> tuple[str, str]:
        if self.out.flexible:
            return "x", ""
        return ("h" if kind == "str" else "i"), "-1"

    def sized_value(self, kind: str, value: str, path: str) -> None:
        size = f"payload_size({value})" if kind == "records" else f"len({value})"
        name = self.count(value, size, path, nullable=False)
        self.flush_with_length(name, "h" if kind == "str" else "i", path)
        if kind == "records":
            self.out.add(f"add_payload({self.parts}, {value})", path)
        else:
            self.out.add(f"{self.write}({value})", path)

    def array(self, each: FieldSpec, expression: str, path: str, *, nullable: bool) -> None:
        out, items = self.out, self.out.fresh("items")
        out.add(f"{items} = {expression}", path)
        name = self.count(items, f"len({items})", path, nullable=nullable)
        self.flush_with_length(name, "i", path)
        if each.type in FORMATS:
            formats = FORMATS[each.type]
            each_format = f"f'>{{len({items})}}{formats}'"
            if formats == "16s":
                each_format = f"'>' + '16s' * len({items})"
            out.add(f"if {items}: {self.write}(pack({each_format}, *{items}))", path)
            return
        item = out.fresh("item")
        with out.block(f"for {item} in {items}{' or ()' if nullable else ''}:", path):
            if each.struct is not None:
                self.struct(each.struct, item, path + ".")
                self.flush(path)
            else:
                self.sized(each.type, item, path, nullable=False)

    def tags(self, known: list[FieldSpec], owner: str, path: str) -> None:
        if not known:
            self.put("x", "")
            return
        out, count = self.out, self.out.fresh("tags")
        is_sent = {each.name: self.differs(each, f"{owner}.{each.name}") for each in known}
        total = " + ".join(f"({test})" for test in is_sent.values())
        out.add(f"{count} = {total}", f"{path}tags")
        self.put("B", count)
        self.flush(f"{path}tags")
        with out.block(f"if {count}:", f"{path}tags"):
            for each in known:
                with out.block(f"if {is_sent[each.name]}:", f"{path}{each.name}"):
                    self.one_tag(each, f"{owner}.{each.name}", f"{path}{each.name}")

    def differs(self, each: FieldSpec, expression: str) -> str:
        """The test whether a tagged field is not at its default, as a bool."""
        if each.starts_absent:
            default = self.out.fresh("default")
            self.out.name_of(default, self.classes[each.type]())
            return f"{expression} is not None and {expression} != {default}"
        if each.ever_null:
            return f"{expression} is not None"
        if each.is_array or each.type in ("str", "bytes"):
            return f"len({expression}) > 0"
        if each.type == "uuid":
            return f"{expression} != zero_uuid"
        return f"{expression} != {each.default if each.default is not None else 0}"

    def one_tag(self, each: FieldSpec, expression: str, path: str) -> None:
        """A tagged field is encoded separately first, since its size precedes it."""
        out, aside, outer = self.out, self.out.fresh("aside"), self.parts
        out.add(f"{aside} = []", path)
        self.parts = aside
        if each.struct is not None and not each.is_array:
            self.one_struct(each.struct, expression, path, nullable=False)
        else:
            self.field(each, expression, path)
        self.flush(path)
        self.parts = outer
        body = out.fresh("body")
        out.add(f"{body} = b''.join({aside})", path)
        prefix = self.out.fresh("tag")
        self.out.name_of(prefix, uvarint(each.tag or 0))
        out.add(f"{self.write}({prefix} + uvarint(len({body})) + {body})", path)
