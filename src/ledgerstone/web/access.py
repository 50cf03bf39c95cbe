"""Who may change something through the page. Pure.

The broker prints a token when it starts. It is exchanged for a cookie once, so that it does not
stay in the address bar. Every form carries a second secret derived from it: a foreign page can send
the cookie's owner here, but does not know that secret. Neither reveals the token.
"""

import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import Final
from urllib.parse import urlsplit

from ledgerstone.clock import Dice

TOKEN_BYTES: Final = 16
CSRF_FIELD: Final = "csrf"


class Access:
    """Made at start with a token of its own; `port` is known once the broker listens."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.csrf = _derived(token, "form")
        self._session = _derived(token, "session")

    @classmethod
    def from_dice(cls, dice: Dice) -> "Access":
        return cls(dice.random_bytes(TOKEN_BYTES).hex())

    def is_token(self, text: str) -> bool:
        return is_same(text, self.token)

    def is_bearer(self, headers: Mapping[str, str]) -> bool:
        """Whether a program sends the token itself; browsers do not."""
        scheme, _, text = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self.is_token(text.strip())

    def cookie(self, port: int) -> str:
        """The header that grants access until the browser is closed."""
        return f"{_cookie_name(port)}={self._session}; Path=/; HttpOnly; SameSite=Strict"

    def is_known(self, headers: Mapping[str, str], port: int) -> bool:
        """Whether the request carries the cookie."""
        # Imported here: nobody may ever look at the page.
        from http.cookies import CookieError, SimpleCookie

        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        found = cookies.get(_cookie_name(port))
        return found is not None and is_same(found.value, self._session)

    def is_own_form(self, headers: Mapping[str, str], fields: Mapping[str, str]) -> bool:
        """Whether a form comes from one of our pages."""
        return is_same_origin(headers) and is_same(fields.get(CSRF_FIELD, ""), self.csrf)


def is_same_origin(headers: Mapping[str, str]) -> bool:
    """Whether the request may come from our pages. Browsers send the origin of a form."""
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host")


def _cookie_name(port: int) -> str:
    # Cookies ignore ports, and two brokers may run on one machine.
    return f"ledgerstone-{port}"


def _derived(token: str, purpose: str) -> str:
    return hmac.new(token.encode(), purpose.encode(), sha256).hexdigest()


def is_same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())
