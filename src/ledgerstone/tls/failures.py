"""What OpenSSL says about a handshake that failed, in words that help. Grade S: the exceptions are
those of `ssl`."""

import ssl
from typing import Final


class HandshakeFailed(ConnectionError):
    """No TLS came about. The text has the reason."""


# By OpenSSL's word for it.
_WORDS: Final = {
    "WRONG_VERSION_NUMBER": "it speaks no TLS",
    "HTTP_REQUEST": "it speaks HTTP",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate, and ssl.client.auth=required",
    "UNSUPPORTED_PROTOCOL": "it offers only versions of TLS that are not enabled here",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it takes none of the versions of TLS that are enabled here",
    "NO_SHARED_CIPHER": "both sides have no cipher suite in common",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the certificate of this side: unknown CA",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it says that the certificate of this side has expired",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refuses the certificate of this side",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it refuses the certificate of this side",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a certificate, and this side shows none",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it refuses: no version, suite or certificate that suits it",
}


def explained(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError):
        return "the other side has left during the handshake"
    return _WORDS.get(error.reason or "", error.reason or str(error))
