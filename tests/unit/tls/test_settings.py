"""What the ssl.* keys say, and what is refused."""

import pytest

from ledgerstone.errors import ConfigError
from ledgerstone.tls.ciphers import openssl_name
from ledgerstone.tls.settings import ClientAuth, tls_settings


def test_nothing_set_is_kafkas_default() -> None:
    settings = tls_settings({})

    assert settings.keystore is settings.truststore is None
    assert settings.client_auth is ClientAuth.NONE
    assert (settings.least_version, settings.newest_version) == ("TLSv1.2", "TLSv1.3")
    assert settings.checks_host
    assert settings.verifies


def test_librdkafkas_names_are_read_as_well() -> None:
    settings = tls_settings(
        {
            "ssl.ca.location": "ca.pem",
            "ssl.certificate.location": "me.crt",
            "ssl.key.location": "me.key",
            "ssl.key.password": "x",
            "ssl.endpoint.identification.algorithm": "none",
        }
    )

    assert settings.files == ("me.crt", "me.key", "ca.pem")
    assert not settings.checks_host


@pytest.mark.parametrize(
    ("values", "versions"),
    [
        ({"ssl.enabled.protocols": "TLSv1.2"}, ("TLSv1.2", "TLSv1.2")),
        ({"ssl.enabled.protocols": "TLSv1.3"}, ("TLSv1.3", "TLSv1.3")),
        ({"ssl.protocol": "TLSv1.2"}, ("TLSv1.2", "TLSv1.2")),
        ({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, ("TLSv1.3", "TLSv1.3")),
        (
            {"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
            ("TLSv1.2", "TLSv1.2"),
        ),
        (
            {"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384,ECDHE-RSA-AES128-GCM-SHA256"},
            ("TLSv1.2", "TLSv1.3"),
        ),
    ],
)
def test_versions_follow_from_what_is_enabled(
    values: dict[str, str], versions: tuple[str, str]
) -> None:
    settings = tls_settings(values)

    assert (settings.least_version, settings.newest_version) == versions


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8", "ECDHE-ECDSA-AES128-CCM8"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_NULL_WITH_NULL_NULL", None),
        ("rubbish", None),
    ],
)
def test_suites_have_other_names_in_openssl(suite: str, name: str | None) -> None:
    assert openssl_name(suite) == name


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "ssl.enabled.protocols"),
        ({"ssl.protocol": "SSLv3"}, "ssl.protocol"),
        ({"ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": "TLSv1.3"}, "ssl.protocol"),
        ({"ssl.cipher.suites": "TLS_RSA_WITH_RC4_128_SHA"}, "ssl.cipher.suites"),
        (
            {"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256", "ssl.protocol": "TLSv1.2"},
            "ssl.cipher.suites",
        ),
        ({"ssl.client.auth": "always"}, "ssl.client.auth"),
        ({"ssl.keystore.type": "BKS"}, "ssl.keystore.type"),
        ({"ssl.keystore.key": "k"}, "ssl.keystore.certificate.chain"),
        ({"ssl.keystore.certificate.chain": "c"}, "ssl.keystore.key"),
        (
            {
                "ssl.keystore.key": "k",
                "ssl.keystore.certificate.chain": "c",
                "ssl.keystore.location": "f",
            },
            "ssl.keystore.certificates",
        ),
        (
            {"ssl.truststore.certificates": "c", "ssl.truststore.password": "secret"},
            "ssl.truststore.password",
        ),
        (
            {"ssl.truststore.certificates": "c", "ssl.truststore.type": "PKCS12"},
            "ssl.truststore.type",
        ),
        ({"ssl.key.location": "k"}, "ssl.certificate.location"),
        (
            {"ssl.endpoint.identification.algorithm": "ldaps"},
            "ssl.endpoint.identification.algorithm",
        ),
        ({"ssl.allow.dn.changes": "perhaps"}, "ssl.allow.dn.changes"),
    ],
)
def test_what_cannot_be_meant_is_refused(values: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        tls_settings(values)

    assert raised.value.key == key
    assert "secret" not in str(raised.value)
