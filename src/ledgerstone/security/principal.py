"""Who asks, as ACLs and quotas name it. Pure."""

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """A kind, which is `User` for everyone that logs in, and a name."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
