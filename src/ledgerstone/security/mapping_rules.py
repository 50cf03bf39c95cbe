"""`ssl.principal.mapping.rules`: from a distinguished name to the name of a principal. Pure.

Rules are tried in their order; the first whose pattern matches all of the name counts. The grammar
is Kafka's: `DEFAULT`, or `RULE:pattern/replacement/` with `L` or `U` behind it, comma separated. A
slash or a comma in a pattern is written as it is there.
"""

import re
from typing import Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import ConfigError

_KEY: Final = "ssl.principal.mapping.rules"
# As in Kafka's SslPrincipalMapper.
_RULE: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*([,\n]|\Z)")
_PARSER: Final = re.compile(_RULE)
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d)")
# What Java's expressions have and Python's read as something else, or not at all.
_JAVA_ONLY: Final = re.compile(r"\\[pPQEhHvVRXGkK]|\[[^\]]*&&|\(\?<[A-Za-z]")


class NoMatchingRule(Exception):
    """No rule names a principal for the certificate."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """`pattern` None: the name as it is."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        # As in Kafka: every match within the name is replaced, also an empty one at its end.
        text = self.pattern.sub(self._replaced, name)
        return text.lower() if self.case == "L" else text.upper() if self.case == "U" else text

    def _replaced(self, found: re.Match[str]) -> str:
        def meant(reference: re.Match[str]) -> str:
            if reference[1] is not None:
                return reference[1]
            number = int(reference[2])
            # A group that there is not stays as it is written.
            return (found[number] or "") if number <= found.re.groups else reference[0]

        return _REFERENCE.sub(meant, self.replacement)


@dataclass(frozen=True, slots=True)
class MappingRules:
    rules: tuple[_Rule, ...]

    def name_of(self, distinguished_name: str) -> str:
        for rule in self.rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        raise NoMatchingRule(f"no rule of {_KEY} matches {distinguished_name}")


def parse_mapping_rules(text: str) -> MappingRules:
    rules = [_rule(part) for part in _split(text.strip())]
    return MappingRules(tuple(rules) or (_Rule(),))


def _split(text: str) -> list[str]:
    """At commas outside of patterns. Empty rules are left out, as in Kafka."""
    parts, at = [], 0
    while at < len(text):
        found = _SPLITTER.match(text, at)
        if found is None or found.end() == at:
            raise ConfigError(_KEY, text, f"cannot be read from {text[at : at + 40]!r} on")
        if found[1]:
            parts.append(found[1])
        at = found.end()
    return parts


def _rule(text: str) -> _Rule:
    found = _PARSER.match(text)
    if found is None or found.end() != len(text):
        reason = "must be DEFAULT, or RULE:pattern/replacement/ with L or U behind it"
        raise ConfigError(_KEY, text, reason)
    if found[1]:
        return _Rule()
    pattern, replacement, case = found[2], found[4], found[6]
    if _JAVA_ONLY.search(pattern):
        raise ConfigError(_KEY, text, "has an expression that only Java reads")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(_KEY, text, f"has a pattern that is none: {error}") from error
    return _Rule(compiled, replacement, case)
