"""Who a connection of ours logs in as, and the login itself. Pure.

Shared by clients, whose properties name an account, and by brokers, whose line of JAAS does.
"""

import base64
from collections.abc import Callable
from typing import Final

from ledgerstone.clock import Dice
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.protocol.client_login import ClientLogin
from ledgerstone.security.exchange import OAUTHBEARER
from ledgerstone.security.plain import PLAIN, PlainClient
from ledgerstone.security.scram_client import ScramClient
from ledgerstone.security.scram_keys import SCRAM_BY_TEXT

CLIENT_MECHANISMS: Final = (PLAIN, *SCRAM_BY_TEXT, OAUTHBEARER)
_NONCE_BYTES: Final = 18

MakeLogin = Callable[[], ClientLogin]


@dataclass(frozen=True, slots=True)
class Account:
    """By OAUTHBEARER the password is a token, which names the user itself."""

    mechanism: str
    name: str
    password: str = field(repr=False)


def login_maker(account: Account, dice: Dice) -> MakeLogin:
    """Makes a login for each connection."""

    def make() -> ClientLogin:
        if account.mechanism == PLAIN:
            return PlainClient(account.name, account.password)
        if account.mechanism == OAUTHBEARER:
            from ledgerstone.security.oauthbearer import OauthClient

            return OauthClient(account.password)
        nonce = new_nonce(dice)
        mechanism = SCRAM_BY_TEXT[account.mechanism]
        return ScramClient(mechanism, account.name, account.password, nonce)

    return make


def new_nonce(dice: Dice) -> str:
    return base64.b64encode(dice.random_bytes(_NONCE_BYTES)).decode()
