"""Connections of a client through TLS. Shell."""

import socket
import ssl
from collections.abc import Callable

from ledgerstone.client.cluster import Endpoint
from ledgerstone.errors import LedgerstoneError
from ledgerstone.tls.contexts import client_context
from ledgerstone.tls.failures import explained
from ledgerstone.tls.settings import TlsSettings


class TlsRefused(LedgerstoneError):
    """A broker answers, and no TLS comes about. Trying again would change nothing."""


def tls_dial(
    settings: TlsSettings, dial: Callable[[Endpoint, float], socket.socket]
) -> Callable[[Endpoint, float], socket.socket]:
    """ConfigError for keys and certificates that cannot be used; they are read now, and once."""
    context = client_context(settings).context

    def dial_tls(endpoint: Endpoint, timeout_s: float) -> socket.socket:
        sock = dial(endpoint, timeout_s)
        try:
            return context.wrap_socket(sock, server_hostname=endpoint.host)
        except ssl.SSLEOFError as error:
            sock.close()
            # A broker that stops ends like this, too.
            raise ConnectionResetError(explained(error)) from error
        except ssl.SSLError as error:
            sock.close()
            where = f"{endpoint.host}:{endpoint.port}"
            raise TlsRefused(f"no TLS with {where}: {explained(error)}") from error
        except BaseException:
            sock.close()
            raise

    return dial_tls
