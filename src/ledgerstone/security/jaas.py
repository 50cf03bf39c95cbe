"""The one line of JAAS in which Kafka keeps users and passwords: read, never run. Pure.

`org.apache.kafka.common.security.plain.PlainLoginModule required username="b" password="s";` names
a Java class, a flag, and options. Three classes are known, and nothing is ever loaded by name
(CVE-2023-25194). Errors name the place, never what stands there: it may be a password.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from ledgerstone.errors import ConfigError

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_MODULES: Final = (PLAIN_MODULE, SCRAM_MODULE, OAUTHBEARER_MODULE)
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_MAX_CHARACTERS: Final = 1 << 20
_USER_PREFIX: Final = "user_"

_TOKEN: Final = re.compile(
    r"""
      (?P<space>\s+|//[^\n]*|/\*.*?\*/)
    | "(?P<double>(?:[^"\\\n]|\\.)*)"
    | '(?P<single>(?:[^'\\\n]|\\.)*)'
    | (?P<word>[A-Za-z_$][\w.$-]*)
    | (?P<number>[0-9][\w.]*)
    | (?P<mark>[=;])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class _Token(NamedTuple):
    kind: str
    text: str


class JaasConfig(NamedTuple):
    """`repr` hides the options: they hold passwords."""

    module: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"JaasConfig({self.module})"

    @property
    def users(self) -> dict[str, str]:
        """`user_alice="secret"`: who may log in by PLAIN."""
        return {
            key.removeprefix(_USER_PREFIX): value
            for key, value in self.options.items()
            if key.startswith(_USER_PREFIX) and len(key) > len(_USER_PREFIX)
        }


def parse_jaas(key: str, text: str) -> JaasConfig:
    """`key` is what the setting is called; ConfigError says what is wrong with it."""
    tokens = _tokens(key, text)
    if len(tokens) < 3:
        raise _wrong(key, "must be: module flag option=value ... ;")
    module, flag = tokens[0], tokens[1]
    if module.text not in _MODULES:
        raise _wrong(key, f"must name one of {', '.join(_MODULES)}")
    if flag.text.lower() not in _FLAGS:
        raise _wrong(key, f"must have one of {', '.join(_FLAGS)} after the module")
    if tokens[-1] != _Token("mark", ";"):
        raise _wrong(key, "must end in ;")
    return JaasConfig(module.text, _options(key, tokens[2:-1]))


def _options(key: str, tokens: list[_Token]) -> dict[str, str]:
    options: dict[str, str] = {}
    if len(tokens) % 3:
        raise _wrong(key, "must have its options as name=value, and one module only")
    for name, equals, value in zip(tokens[::3], tokens[1::3], tokens[2::3], strict=True):
        if name.kind in ("number", "mark") or equals != _Token("mark", "=") or value.kind == "mark":
            raise _wrong(key, "must have its options as name=value, and one module only")
        if value.kind == "number":
            # Java's tokenizer reads a number and loses the text.
            raise _wrong(
                key, f"must have the value of {name.text} in quotes: it begins as a number"
            )
        if name.text in options:
            raise _wrong(key, f"names {name.text} twice")
        options[name.text] = value.text
    return options


def _tokens(key: str, text: str) -> list[_Token]:
    if len(text) > _MAX_CHARACTERS:
        raise _wrong(key, f"is longer than {_MAX_CHARACTERS} characters")
    found, position = [], 0
    while position < len(text):
        matched = _TOKEN.match(text, position)
        if matched is None:
            raise _wrong(key, f"cannot be read at character {position + 1}")
        position = matched.end()
        kind, value = matched.lastgroup, matched[matched.lastgroup or 0]
        if kind == "space":
            continue
        if kind in ("double", "single"):
            found.append(_Token("quoted", _unescaped(value)))
        else:
            found.append(_Token(kind or "", value))
    return found


def _unescaped(text: str) -> str:
    def one(matched: re.Match[str]) -> str:
        code = matched[1]
        return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPES.get(code, code)

    return _ESCAPE.sub(one, text)


def _wrong(key: str, reason: str) -> ConfigError:
    return ConfigError(key, "[hidden]", reason)
