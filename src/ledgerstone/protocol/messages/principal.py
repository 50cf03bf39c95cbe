"""Principal. Pure.

Made from schemas/principal.txt by tools/codegen.py.
"""

from typing import Final

from ledgerstone.protocol.message import Message


class DefaultPrincipalData(Message):
    __slots__ = (
        "type",
        "name",
        "token_authenticated",
    )

    def __init__(
        self,
        type: str = "",
        name: str = "",
        token_authenticated: bool = False,
    ) -> None:
        self.type = type
        self.name = name
        self.token_authenticated = token_authenticated


SCHEMA: Final = """\
data DefaultPrincipalData v0-0 flexible 0+
    type: str
    name: str
    token_authenticated: bool
"""
