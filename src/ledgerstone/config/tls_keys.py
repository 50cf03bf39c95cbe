"""The broker keys of TLS. Pure; `tls.settings` gives them meaning.

Names, types and defaults are Kafka's. Each can be set for one listener alone, as
`listener.name.<name>.<key>`.
"""

from typing import Final

from ledgerstone.config.broker_key import BrokerKey, flag_key, text_key
from ledgerstone.config.setting import ConfigType


def _secret(name: str, doc: str) -> BrokerKey:
    return BrokerKey(name=name, kind=ConfigType.PASSWORD, default=None, doc=doc, is_sensitive=True)


def _list(name: str, default: tuple[str, ...], doc: str) -> BrokerKey:
    return BrokerKey(name=name, kind=ConfigType.LIST, default=default, doc=doc)


TLS_KEYS: Final = (
    BrokerKey(
        name="ssl.client.auth",
        kind=ConfigType.STRING,
        default="none",
        one_of=("required", "requested", "none"),
        doc="Whether clients show a certificate. Without a listener in the key it counts for "
        "listeners with SSL, not for those with SASL_SSL.",
    ),
    text_key(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        "How the distinguished name of a client's certificate becomes the name of a principal: "
        "DEFAULT, or RULE:pattern/replacement/ with L or U behind it, comma separated. The first "
        "rule that matches all of the name counts.",
    ),
    text_key(
        "ssl.keystore.location",
        None,
        "File with the private key and the certificate chain: PEM or PKCS12. It is read again when "
        "it has changed.",
    ),
    text_key("ssl.keystore.type", "JKS", "PEM or PKCS12. A file says itself which of them it is."),
    _secret("ssl.keystore.password", "Of a PKCS12 keystore; not for PEM."),
    _secret("ssl.key.password", "Of the private key, if it is encrypted."),
    _secret("ssl.keystore.key", "The private key itself, in PEM, instead of a file."),
    _secret(
        "ssl.keystore.certificate.chain", "The certificate chain itself, in PEM, instead of a file."
    ),
    text_key(
        "ssl.truststore.location",
        None,
        "File with the certificates that are trusted: PEM or PKCS12. It is read again when it has "
        "changed.",
    ),
    text_key(
        "ssl.truststore.type", "JKS", "PEM or PKCS12. A file says itself which of them it is."
    ),
    _secret("ssl.truststore.password", "Of a PKCS12 truststore; not for PEM."),
    _secret(
        "ssl.truststore.certificates",
        "The certificates that are trusted, in PEM, instead of a file.",
    ),
    _list("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), "TLSv1.2, TLSv1.3 or both."),
    text_key("ssl.protocol", "TLSv1.3", "The newest version: TLSv1.2 or TLSv1.3."),
    _list(
        "ssl.cipher.suites",
        (),
        "Cipher suites by their IANA names; by default, OpenSSL's. Suites of TLSv1.3 are on or off "
        "together.",
    ),
    text_key(
        "ssl.endpoint.identification.algorithm",
        "https",
        "https: connections to other nodes check that the certificate is for the host. Empty: they "
        "do not.",
    ),
    flag_key(
        "ssl.allow.dn.changes",
        False,
        "Whether a keystore that is read again may be for another distinguished name.",
    ),
    flag_key(
        "ssl.allow.san.changes",
        False,
        "Whether a keystore that is read again may lack names that the one before was for.",
    ),
)
