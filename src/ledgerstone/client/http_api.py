"""Where the HTTP API of a broker is, and a connection to it as who the client is. Shell.

The address is the broker's setting `ledgerstone.http.listener`. The account and the truststore are
those that the client has for the Kafka port: `security.protocol`, `sasl.*`, `ssl.*`.
"""

import ipaddress
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ledgerstone.client.security import PLAIN_TEXT, ClientSecurity
from ledgerstone.security.exchange import OAUTHBEARER
from ledgerstone.tls.settings import TlsSettings

if TYPE_CHECKING:
    from http.client import HTTPConnection

KEY: Final = "ledgerstone.http.listener"
_EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")


class ApiAddress(NamedTuple):
    host: str
    port: int
    is_secure: bool = False

    def __str__(self) -> str:
        """HOST:PORT, or with https:// in front: as the setting has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https://' if self.is_secure else ''}{host}:{self.port}"

    @property
    def url(self) -> str:
        text = str(self)
        return text if self.is_secure else f"http://{text}"

    @property
    def is_local(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_api_address(text: str, broker_host: str = "") -> ApiAddress | None:
    """A port on every address is where clients reach the broker. None: this is no address."""
    scheme, separator, rest = text.strip().partition("://")
    if separator and scheme.lower() not in ("http", "https"):
        return None
    is_secure = bool(separator) and scheme.lower() == "https"
    address = (rest if separator else text.strip()).rstrip("/")
    host, _, port = address.rpartition(":")
    if separator and address and not port.isdecimal():
        host, port = address, "443" if is_secure else "80"
    if not (port.isascii() and port.isdecimal() and len(port) <= 5):
        return None
    host = host.removeprefix("[").removesuffix("]")
    return ApiAddress(broker_host if host in _EVERY_ADDRESS else host, int(port), is_secure)


def open_api(
    address: ApiAddress, security: ClientSecurity = PLAIN_TEXT, *, timeout_s: float
) -> "HTTPConnection":
    # It brings TLS and mail along, which many clients do without.
    import http.client

    if not address.is_secure:
        return http.client.HTTPConnection(address.host, address.port, timeout=timeout_s)
    from ledgerstone.tls.contexts import client_context

    tls = security.tls or TlsSettings(keystore=None, truststore=None)
    context = client_context(tls).context
    return http.client.HTTPSConnection(
        address.host, address.port, timeout=timeout_s, context=context
    )


def authorization(
    address: ApiAddress, security: ClientSecurity = PLAIN_TEXT, token: str | None = None
) -> Mapping[str, str]:
    """Headers. A password goes over TLS, or stays on this machine."""
    if token:
        return {"Authorization": f"Bearer {token}"}
    account = security.account
    if account is None or not (address.is_secure or address.is_local):
        return {}
    if account.mechanism == OAUTHBEARER:
        return {"Authorization": f"Bearer {account.password}"}
    text = b64encode(f"{account.name}:{account.password}".encode()).decode("ascii")
    return {"Authorization": f"Basic {text}"}
