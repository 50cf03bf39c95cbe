"""Principal. Pure.

Made from schemas/principal.txt by tools/codegen.py.
"""

from dataclasses import dataclass
from typing import Final

from ledgerstone.protocol.message import Message


@dataclass(slots=True, eq=False, repr=False)
class DefaultPrincipalData(Message):
    type: str = ""
    name: str = ""
    token_authenticated: bool = False


SCHEMA: Final = """\
data DefaultPrincipalData v0-0 flexible 0+
    type: str
    name: str
    token_authenticated: bool
"""
