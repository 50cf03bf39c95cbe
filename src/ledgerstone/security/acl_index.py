"""All ACLs, arranged so that one question costs a microsecond however many there are. Pure.

A question is asked by a principal about a name. ACLs are therefore kept by principal and type of
resource first, then by name; prefixes are looked up by their lengths. What the ACLs of one host say
about a name is two sets of bits, so that implied operations and ALL cost nothing to look up.
"""

from collections import Counter
from collections.abc import Iterator
from functools import reduce
from operator import or_

from ledgerstone.security.acl import (
    EVERYBODY,
    WILDCARD,
    Acl,
    PatternType,
    PermissionType,
    allowed_bits,
    bits_of,
    host_text,
)


class _HostRules:
    """What the ACLs of one principal, pattern and host say. Kept one by one: another ACL may give
    the same right, so that removing one of them takes nothing away."""

    __slots__ = ("_acls", "allowed", "denied")

    def __init__(self) -> None:
        self._acls: dict[Acl, None] = {}
        self.allowed = 0
        self.denied = 0

    def __bool__(self) -> bool:
        return bool(self._acls)

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._acls)

    def add(self, acl: Acl) -> None:
        self._acls[acl] = None
        if acl.permission_type == PermissionType.ALLOW:
            self.allowed |= allowed_bits(acl.operation)
        else:
            self.denied |= bits_of(acl.operation)

    def remove(self, acl: Acl) -> None:
        del self._acls[acl]
        left, self._acls = self._acls, {}
        self.allowed = self.denied = 0
        for each in left:
            self.add(each)


_ByHost = dict[str, _HostRules]


class _Section:
    """The ACLs of one principal for one type of resource."""

    __slots__ = ("lengths", "literals", "prefixes")

    def __init__(self) -> None:
        self.literals: dict[str, _ByHost] = {}
        self.prefixes: dict[str, _ByHost] = {}
        # Of all prefixes, each once, the shortest first.
        self.lengths: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.literals or self.prefixes)

    def add(self, acl: Acl) -> None:
        patterns = self._patterns(acl)
        by_host = patterns.setdefault(acl.resource_name, {})
        by_host.setdefault(host_text(acl.host), _HostRules()).add(acl)
        if patterns is self.prefixes and len(acl.resource_name) not in self.lengths:
            self._count_lengths()

    def remove(self, acl: Acl) -> None:
        patterns, host = self._patterns(acl), host_text(acl.host)
        by_host = patterns[acl.resource_name]
        by_host[host].remove(acl)
        if not by_host[host]:
            del by_host[host]
        if not by_host:
            del patterns[acl.resource_name]
            self._count_lengths()

    def _patterns(self, acl: Acl) -> dict[str, _ByHost]:
        return self.prefixes if acl.pattern_type == PatternType.PREFIXED else self.literals

    def _count_lengths(self) -> None:
        self.lengths = tuple(sorted({len(each) for each in self.prefixes}))

    def bits_for(self, name: str, host: str) -> tuple[int, int]:
        """What is allowed and what is denied for a name."""
        allowed = denied = 0
        literals, prefixes = self.literals, self.prefixes
        found = []
        if literals:
            if (by_host := literals.get(name)) is not None:
                found.append(by_host)
            if (by_host := literals.get(WILDCARD)) is not None and name != WILDCARD:
                found.append(by_host)
        for length in self.lengths:
            if length > len(name):
                break
            if (by_host := prefixes.get(name[:length])) is not None:
                found.append(by_host)
        for by_host in found:
            if (rules := by_host.get(WILDCARD)) is not None:
                allowed |= rules.allowed
                denied |= rules.denied
            if (rules := by_host.get(host)) is not None:
                allowed |= rules.allowed
                denied |= rules.denied
        return allowed, denied

    def named_bits_for(self, name: str, host: str) -> int:
        """What is allowed for a name by those ACLs that have just this name."""
        by_host = self.literals.get(name, {})
        found = (by_host.get(WILDCARD), by_host.get(host))
        return reduce(or_, (each.allowed for each in found if each is not None), 0)

    def __iter__(self) -> Iterator[Acl]:
        for patterns in (self.literals, self.prefixes):
            for by_host in patterns.values():
                for rules in by_host.values():
                    yield from rules

    def acls_for(self, host: str) -> Iterator[Acl]:
        for patterns in (self.literals, self.prefixes):
            for by_host in patterns.values():
                for each in (host, WILDCARD):
                    yield from by_host.get(each, ())


class AclIndex:
    """Follows the ACLs of the metadata one by one. `epoch` rises with every change."""

    __slots__ = ("_lengths", "_patterns", "_sections", "epoch")

    def __init__(self) -> None:
        self.epoch = 0
        self._sections: dict[tuple[str, int], _Section] = {}
        # How many ACLs have a pattern, whoever they are for: type, pattern type, name.
        self._patterns: Counter[tuple[int, int, str]] = Counter()
        # The same by the lengths of prefixes: type, length.
        self._lengths: Counter[tuple[int, int]] = Counter()

    def add(self, acl: Acl) -> None:
        self.epoch += 1
        key = (acl.principal, acl.resource_type)
        self._sections.setdefault(key, _Section()).add(acl)
        self._count(acl, 1)

    def remove(self, acl: Acl) -> None:
        """One that was added."""
        self.epoch += 1
        key = (acl.principal, acl.resource_type)
        section = self._sections[key]
        section.remove(acl)
        if not section:
            del self._sections[key]
        self._count(acl, -1)

    def _count(self, acl: Acl, change: int) -> None:
        pattern = (acl.resource_type, acl.pattern_type, acl.resource_name)
        self._patterns[pattern] += change
        if not self._patterns[pattern]:
            del self._patterns[pattern]
        if acl.pattern_type == PatternType.PREFIXED:
            length = (acl.resource_type, len(acl.resource_name))
            self._lengths[length] += change
            if not self._lengths[length]:
                del self._lengths[length]

    @property
    def is_empty(self) -> bool:
        return not (self._sections or self._patterns or self._lengths)

    def bits_for(self, principal: str, host: str, resource_type: int, name: str) -> tuple[int, int]:
        """Operations that are allowed, and operations that are denied, as bits. The host is in the
        words of `host_text`."""
        allowed = denied = 0
        for each in (principal, EVERYBODY):
            section = self._sections.get((each, resource_type))
            if section is not None:
                gives, takes = section.bits_for(name, host)
                allowed |= gives
                denied |= takes
        return allowed, denied

    def named_bits_for(self, principal: str, host: str, resource_type: int, name: str) -> int:
        """What is allowed by ACLs for this very name: neither `*` nor a prefix counts."""
        sections = (self._sections.get((each, resource_type)) for each in (principal, EVERYBODY))
        given = (each.named_bits_for(name, host) for each in sections if each is not None)
        return reduce(or_, given, 0)

    def has_acls_on(self, resource_type: int, name: str) -> bool:
        """Whether any ACL speaks of the resource, for whomever."""
        patterns = self._patterns
        literal, prefixed = PatternType.LITERAL, PatternType.PREFIXED
        return (
            (resource_type, literal, name) in patterns
            or (resource_type, literal, WILDCARD) in patterns
            or any(
                (resource_type, prefixed, name[:length]) in patterns
                for kind, length in self._lengths
                if kind == resource_type and length <= len(name)
            )
        )

    def acls_of(self, principal: str, host: str, resource_type: int) -> Iterator[Acl]:
        """Those that speak of the principal, on any name of that type."""
        for each in (principal, EVERYBODY):
            section = self._sections.get((each, resource_type))
            if section is not None:
                yield from section.acls_for(host)

    def about(self, principal: str) -> Iterator[Acl]:
        """Those that speak of the principal, of any type and for any host."""
        for who, resource_type in list(self._sections):
            if who in (principal, EVERYBODY):
                yield from self._sections[who, resource_type]
