"""Reads the text of an expression into a tree. Pure; docs/pipeline.md has the grammar.

Operators, functions and CASE are all calls. What a name means, and which types go together, is
`checking`'s business.
"""

import re
from decimal import Decimal
from typing import Final, NamedTuple

MAX_TEXT: Final = 10_000
MAX_DEPTH: Final = 60

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")+")
      | (?P<word>[^\W\d]\w*)
      | (?P<sign><>|!=|<=|>=|\|\||[-+*/=<>(),])
    )""",
    re.VERBOSE,
)
_COMPARISONS: Final = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_RESERVED: Final = (
    *("AND", "OR", "NOT", "IS", "NULL", "IN", "BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE"),
    *("END", "CAST", "AS", "TRUE", "FALSE"),
)
# A literal of a type is its name and a text: DATE '2026-11-17'.
_TYPED_TEXT: Final = ("DATE", "TIME", "TIMESTAMP")


class ExpressionError(ValueError):
    """The expression is refused, with the reason."""


class Name(NamedTuple):
    """Of a column."""

    name: str


class Literal(NamedTuple):
    value: str | int | float | Decimal | bool | None


class CallNode(NamedTuple):
    function: str
    arguments: "tuple[Node, ...]"


class Cast(NamedTuple):
    value: "Node"
    type: str


Node = Name | Literal | CallNode | Cast


class _Token(NamedTuple):
    kind: str
    text: str
    at: int  # of its first character, from 1


def parse(text: str) -> Node:
    """Raises ExpressionError with the place of what is wrong."""
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"longer than {MAX_TEXT} characters")
    reader = _Reader(_tokens(text))
    node = reader.disjunction()
    if reader.next.kind != "end":
        raise reader.wrong("an operator")
    return node


def _tokens(text: str) -> list[_Token]:
    found = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            rest = text[at:].lstrip()
            raise ExpressionError(f"character {len(text) - len(rest) + 1}: unexpected {rest[0]!r}")
        kind = str(match.lastgroup)
        found.append(_Token(kind, match[kind], match.start(kind) + 1))
        at = match.end()
    return [*found, _Token("end", "", end + 1)]


class _Reader:
    """Recursive descent; each method reads what binds tighter than the one before."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    @property
    def next(self) -> _Token:
        return self._tokens[self._at]

    def wrong(self, wanted: str) -> ExpressionError:
        found = repr(self.next.text) if self.next.text else "the end"
        return ExpressionError(f"character {self.next.at}: expected {wanted}, found {found}")

    def _take(self, *wanted: str) -> str | None:
        """The next token if it is one of these signs or words."""
        token = self.next
        text = token.text.upper() if token.kind == "word" else token.text
        if token.kind not in ("word", "sign") or text not in wanted:
            return None
        self._at += 1
        return text

    def _need(self, wanted: str) -> None:
        if self._take(wanted) is None:
            raise self.wrong(wanted)

    def disjunction(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError("nested too deeply")
        terms = [self._conjunction()]
        while self._take("OR"):
            terms.append(self._conjunction())
        self._depth -= 1
        return terms[0] if len(terms) == 1 else CallNode("OR", tuple(terms))

    def _conjunction(self) -> Node:
        terms = [self._negation()]
        while self._take("AND"):
            terms.append(self._negation())
        return terms[0] if len(terms) == 1 else CallNode("AND", tuple(terms))

    def _negation(self) -> Node:
        count = 0
        while self._take("NOT"):
            count += 1
        node = self._comparison()
        return CallNode("NOT", (node,)) if count % 2 else node

    def _comparison(self) -> Node:
        left = self._sum()
        if sign := self._take(*_COMPARISONS):
            return CallNode(_COMPARISONS[sign], (left, self._sum()))
        if self._take("IS"):
            is_not = self._take("NOT")
            self._need("NULL")
            return _negated(CallNode("IS NULL", (left,)), is_not)
        is_not = self._take("NOT")
        if self._take("IN"):
            return _negated(CallNode("IN", (left, *self._list())), is_not)
        if self._take("LIKE"):
            return _negated(CallNode("LIKE", (left, self._sum())), is_not)
        if self._take("BETWEEN"):
            low = self._sum()
            self._need("AND")
            within = CallNode(
                "AND", (CallNode(">=", (left, low)), CallNode("<=", (left, self._sum())))
            )
            return _negated(within, is_not)
        if is_not:
            raise self.wrong("IN, LIKE or BETWEEN")
        return left

    def _sum(self) -> Node:
        node = self._product()
        for _ in range(MAX_DEPTH):
            sign = self._take("+", "-", "||")
            if sign is None:
                return node
            node = CallNode(sign, (node, self._product()))
        raise ExpressionError("nested too deeply")

    def _product(self) -> Node:
        node = self._signed()
        for _ in range(MAX_DEPTH):
            sign = self._take("*", "/")
            if sign is None:
                return node
            node = CallNode(sign, (node, self._signed()))
        raise ExpressionError("nested too deeply")

    def _signed(self) -> Node:
        if not self._take("-"):
            return self._operand()
        node = self._operand()
        if isinstance(node, Literal) and isinstance(node.value, int | float | Decimal):
            return Literal(-node.value)
        return CallNode("-", (Literal(0), node))

    def _operand(self) -> Node:
        token = self.next
        if self._take("("):
            node = self.disjunction()
            self._need(")")
            return node
        if token.kind == "number":
            self._at += 1
            return Literal(_number(token.text))
        if token.kind == "text":
            self._at += 1
            return Literal(token.text[1:-1].replace("''", "'"))
        if token.kind == "quoted":
            self._at += 1
            return Name(token.text[1:-1].replace('""', '"'))
        if token.kind == "word":
            return self._word(token)
        raise self.wrong("a value")

    def _word(self, token: _Token) -> Node:
        word = token.text.upper()
        if self._take("NULL"):
            return Literal(None)
        if self._take("TRUE", "FALSE"):
            return Literal(word == "TRUE")
        if self._take("CASE"):
            return self._case()
        if self._take("CAST"):
            self._need("(")
            node = self.disjunction()
            self._need("AS")
            kind = self._type()
            self._need(")")
            return Cast(node, kind)
        if word in _RESERVED:
            raise self.wrong("a value")
        self._at += 1
        if word in _TYPED_TEXT and self.next.kind == "text":
            said = self._operand()
            return Cast(said, word.lower())
        if self.next.text == "(" and self.next.kind == "sign":
            return CallNode(token.text.lower(), self._list())
        return Name(token.text)

    def _list(self) -> tuple[Node, ...]:
        self._need("(")
        if self._take(")"):
            return ()
        found = [self.disjunction()]
        while self._take(","):
            found.append(self.disjunction())
        self._need(")")
        return tuple(found)

    def _case(self) -> Node:
        """Conditions and values in turn, and the value of ELSE last."""
        parts: list[Node] = []
        while self._take("WHEN"):
            parts.append(self.disjunction())
            self._need("THEN")
            parts.append(self.disjunction())
        if not parts:
            raise self.wrong("WHEN")
        parts.append(self.disjunction() if self._take("ELSE") else Literal(None))
        self._need("END")
        return CallNode("CASE", tuple(parts))

    def _type(self) -> str:
        token = self.next
        if token.kind != "word":
            raise self.wrong("a type")
        self._at += 1
        if self.next.text != "(":
            return token.text.lower()
        numbers = [each.value for each in self._list() if isinstance(each, Literal)]
        return f"{token.text.lower()}({','.join(map(str, numbers))})"


def _negated(node: Node, is_not: str | None) -> Node:
    return CallNode("NOT", (node,)) if is_not else node


def _number(text: str) -> int | float | Decimal:
    """Exact, unless it is written with an exponent."""
    if "e" in text or "E" in text:
        return float(text)
    return Decimal(text) if "." in text else int(text)
