"""RE2's syntax: text to a tree. Pure. What the tree means is in `safe_pattern`."""

import unicodedata
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass, replace

MOST_REPEATS: Final = 1000
_MOST_DEPTH: Final = 100
_FLAGS: Final = "imsU"
_WORD: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
_CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
# Of Unicode: the general categories, and their parts.
_CATEGORIES: Final = {
    "L": "lmotu", "M": "cen", "N": "dlo", "P": "cdefios", "S": "ckmo", "Z": "lps", "C": "cfos",
}  # fmt: skip
# Only the letters of ASCII, as in RE2.
_PERL: Final[dict[str, Callable[[str], bool]]] = {
    "d": lambda char: "0" <= char <= "9",
    "s": lambda char: char in "\t\n\f\r ",
    "w": lambda char: char in _WORD,
}
_POSIX: Final[dict[str, Callable[[str], bool]]] = {
    "alnum": lambda char: char in _WORD and char != "_",
    "alpha": lambda char: char.isascii() and char.isalpha(),
    "ascii": str.isascii,
    "blank": lambda char: char in "\t ",
    "cntrl": lambda char: ord(char) < 32 or ord(char) == 127,
    "digit": _PERL["d"],
    "graph": lambda char: "!" <= char <= "~",
    "lower": lambda char: "a" <= char <= "z",
    "print": lambda char: " " <= char <= "~",
    "punct": lambda char: "!" <= char <= "~" and (char not in _WORD or char == "_"),
    "space": lambda char: char in "\t\n\v\f\r ",
    "upper": lambda char: "A" <= char <= "Z",
    "word": _PERL["w"],
    "xdigit": lambda char: char in "0123456789ABCDEFabcdef",
}


class PatternError(ValueError):
    """The text is no expression of RE2's."""


class TextPlace(NamedTuple):
    """What stands to both sides of a position; nothing at the ends."""

    before: str
    after: str

    @classmethod
    def of(cls, text: str, at: int) -> "TextPlace":
        return cls(text[at - 1 : at], text[at : at + 1])


class Anchor(Enum):
    TEXT_START = "\\A"
    TEXT_END = "\\z"
    LINE_START = "(?m)^"
    LINE_END = "(?m)$"
    WORD_EDGE = "\\b"
    NO_WORD_EDGE = "\\B"

    def holds(self, place: TextPlace) -> bool:
        match self:
            case Anchor.TEXT_START:
                return not place.before
            case Anchor.TEXT_END:
                return not place.after
            case Anchor.LINE_START:
                return place.before in ("", "\n")
            case Anchor.LINE_END:
                return place.after in ("", "\n")
            case Anchor.WORD_EDGE:
                return _is_word(place.before) != _is_word(place.after)
            case Anchor.NO_WORD_EDGE:
                return _is_word(place.before) == _is_word(place.after)


def _is_word(char: str) -> bool:
    return bool(char) and char in _WORD


@dataclass(frozen=True, slots=True)
class Chars:
    """One character: of a range, or one that a test holds for."""

    ranges: tuple[tuple[str, str], ...] = ()
    tests: tuple[Callable[[str], bool], ...] = ()
    is_negated: bool = False
    ignores_case: bool = False

    def has(self, char: str) -> bool:
        forms = (char, char.lower(), char.upper()) if self.ignores_case else (char,)
        found = any(first <= form <= last for form in forms for first, last in self.ranges) or any(
            test(form) for form in forms for test in self.tests
        )
        return found != self.is_negated


@dataclass(frozen=True, slots=True)
class Sequence:
    nodes: tuple["Node", ...] = ()


@dataclass(frozen=True, slots=True)
class Alternatives:
    nodes: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    node: "Node"
    least: int
    most: int | None  # None: any number


Node = Chars | Anchor | Sequence | Alternatives | Repeat


class _Mode(NamedTuple):
    ignores_case: bool = False
    is_multiline: bool = False
    dot_is_all: bool = False


def parse(text: str) -> Node:
    reader = _Reader(text)
    node = reader.alternatives(_Mode(), 0)
    if reader.at < len(text):
        raise PatternError(f"unexpected {text[reader.at]!r} at {reader.at}")
    return node


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def alternatives(self, mode: _Mode, depth: int) -> Node:
        if depth > _MOST_DEPTH:
            raise PatternError(f"groups are nested deeper than {_MOST_DEPTH}")
        branches: list[Node] = []
        nodes: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] != ")":
            if self._takes("|"):
                branches.append(Sequence(tuple(nodes)))
                nodes = []
                continue
            if (changed := self._flags_alone(mode)) is not None:
                mode = changed
                continue
            if self._takes("\\Q"):
                nodes += self._quoted(mode)
                if not nodes:
                    continue
            else:
                nodes.append(self._atom(mode, depth))
            nodes[-1] = self._repeated(nodes[-1])
        branches.append(Sequence(tuple(nodes)))
        return branches[0] if len(branches) == 1 else Alternatives(tuple(branches))

    def _takes(self, what: str) -> bool:
        if not self.text.startswith(what, self.at):
            return False
        self.at += len(what)
        return True

    def _next(self) -> str:
        if self.at >= len(self.text):
            raise PatternError("the pattern ends too early")
        self.at += 1
        return self.text[self.at - 1]

    # -- groups and flags ---------------------------------------------------------------------

    def _flags_alone(self, mode: _Mode) -> _Mode | None:
        """`(?i)`: from here to the end of the group."""
        end = self.text.find(")", self.at)
        if not self.text.startswith("(?", self.at) or end < 0:
            return None
        flags = self.text[self.at + 2 : end]
        if not flags or not all(each in f"-{_FLAGS}" for each in flags):
            return None
        self.at = end + 1
        return _with_flags(mode, flags)

    def _group(self, mode: _Mode, depth: int) -> Node:
        if self._takes("?"):
            if self._takes("P<") or self._takes("<"):
                name = self._until(">")
                if not name or not all(_is_word(char) for char in name):
                    raise PatternError(f"{name!r} is not the name of a group")
            else:
                mode = _with_flags(mode, self._until(":"))
        node = self.alternatives(mode, depth + 1)
        if not self._takes(")"):
            raise PatternError("a group is not closed")
        return node

    def _until(self, end: str) -> str:
        found = self.text.find(end, self.at)
        if found < 0:
            raise PatternError(f"{end!r} is missing")
        self.at, start = found + len(end), self.at
        return self.text[start:found]

    # -- atoms --------------------------------------------------------------------------------

    def _atom(self, mode: _Mode, depth: int) -> Node:
        char = self._next()
        match char:
            case "(":
                return self._group(mode, depth)
            case "[":
                return self._class(mode)
            case ".":
                return Chars(is_negated=True, ranges=() if mode.dot_is_all else (("\n", "\n"),))
            case "^":
                return Anchor.LINE_START if mode.is_multiline else Anchor.TEXT_START
            case "$":
                return Anchor.LINE_END if mode.is_multiline else Anchor.TEXT_END
            case "\\":
                return self._escaped(mode)
            case "*" | "+" | "?":
                raise PatternError(f"{char!r} repeats nothing")
            case _:
                return Chars(((char, char),), ignores_case=mode.ignores_case)

    def _quoted(self, mode: _Mode) -> list[Chars]:
        end = self.text.find("\\E", self.at)
        literal = self.text[self.at : end] if end >= 0 else self.text[self.at :]
        self.at = end + 2 if end >= 0 else len(self.text)
        return [Chars(((each, each),), ignores_case=mode.ignores_case) for each in literal]

    def _escaped(self, mode: _Mode) -> Node:
        for letter, anchor in (
            ("A", Anchor.TEXT_START),
            ("z", Anchor.TEXT_END),
            ("b", Anchor.WORD_EDGE),
            ("B", Anchor.NO_WORD_EDGE),
        ):
            if self._takes(letter):
                return anchor
        return replace(self._escaped_chars(), ignores_case=mode.ignores_case)

    def _escaped_chars(self) -> Chars:
        """What may stand behind a backslash inside a class, too."""
        char = self._next()
        if char.lower() in _PERL:
            return Chars(tests=(_PERL[char.lower()],), is_negated=char.isupper())
        if char in "pP":
            name = self._until("}") if self._takes("{") else self._next()
            is_negated = (char == "P") != name.startswith("^")
            return Chars(tests=(_category(name.removeprefix("^")),), is_negated=is_negated)
        literal = self._escaped_char(char)
        return Chars(((literal, literal),))

    def _escaped_char(self, char: str) -> str:
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "x":
            digits = self._until("}") if self._takes("{") else self._next() + self._next()
            return _char_of(digits, 16)
        if char in "01234567":
            digits = char
            while len(digits) < 3 and self.text[self.at : self.at + 1] in tuple("01234567"):
                digits += self._next()
            if char != "0" and len(digits) == 1:
                raise PatternError("back-references are not allowed")
            return _char_of(digits, 8)
        if char.isascii() and char.isalnum():
            raise PatternError(f"\\{char} means nothing")
        return char

    def _class(self, mode: _Mode) -> Chars:
        is_negated = self._takes("^")
        ranges: list[tuple[str, str]] = []
        tests: list[Callable[[str], bool]] = []
        is_first = True
        while is_first or not self._takes("]"):
            is_first = False
            if self._takes("[:"):
                tests.append(_posix(self._until(":]")))
                continue
            first = self._class_item()
            if first.tests:
                tests.append(first.has)
                continue
            low = first.ranges[0][0]
            high = low
            if self.text.startswith("-", self.at) and not self.text.startswith("-]", self.at):
                self.at += 1
                last = self._class_item()
                if last.tests or last.ranges[0][0] < low:
                    raise PatternError("a range of a class ends before it begins")
                high = last.ranges[0][0]
            ranges.append((low, high))
        return Chars(tuple(ranges), tuple(tests), is_negated, mode.ignores_case)

    def _class_item(self) -> Chars:
        if self._takes("\\"):
            return self._escaped_chars()
        char = self._next()
        return Chars(((char, char),))

    # -- repetition ---------------------------------------------------------------------------

    def _repeated(self, node: Node) -> Node:
        counts = self._counts()
        if counts is None:
            return node
        self._takes("?")  # Greedy or not: of a whole text it is the same.
        if self._counts() is not None:
            raise PatternError("what is repeated is repeated already")
        return Repeat(node, *counts)

    def _counts(self) -> tuple[int, int | None] | None:
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._takes(sign):
                return counts
        end = self.text.find("}", self.at)
        if not self.text.startswith("{", self.at) or end < 0:
            return None
        least, comma, most = self.text[self.at + 1 : end].partition(",")
        if not _is_count(least) or (most and not _is_count(most)):
            return None  # A brace that counts nothing is a brace.
        self.at = end + 1
        low = int(least)
        high = None if comma and not most else int(most or least)
        if low > MOST_REPEATS or (high is not None and not low <= high <= MOST_REPEATS):
            raise PatternError(f"{{{least}{comma}{most}}} is not in order, or above {MOST_REPEATS}")
        return low, high


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 6


def _with_flags(mode: _Mode, flags: str) -> _Mode:
    on, minus, off = flags.partition("-")
    if not all(each in _FLAGS for each in on + off) or (minus and not off):
        raise PatternError(f"(?{flags} is not an expression of RE2's")
    for letters, value in ((on, True), (off, False)):
        mode = _Mode(
            value if "i" in letters else mode.ignores_case,
            value if "m" in letters else mode.is_multiline,
            value if "s" in letters else mode.dot_is_all,
        )
    return mode


def _char_of(digits: str, base: int) -> str:
    try:
        return chr(int(digits, base))
    except (ValueError, OverflowError) as error:
        raise PatternError(f"{digits!r} is not the number of a character") from error


def _posix(name: str) -> Callable[[str], bool]:
    is_negated, name = name.startswith("^"), name.removeprefix("^")
    if name not in _POSIX:
        raise PatternError(f"[:{name}:] is not a class")
    return Chars(tests=(_POSIX[name],), is_negated=is_negated).has


def _category(name: str) -> Callable[[str], bool]:
    if name == "Any":
        return lambda char: True
    if name[:1] not in _CATEGORIES or name[1:] not in ("", *_CATEGORIES[name[:1]]):
        raise PatternError(f"\\p{{{name}}} is not a general category")
    return lambda char: unicodedata.category(char).startswith(name)
