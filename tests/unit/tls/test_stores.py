"""Keystores and truststores: PEM and PKCS12, files and texts, and what is wrong with them."""

import base64
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, pkcs12

from ledgerstone.errors import ConfigError
from ledgerstone.system import SystemClock
from ledgerstone.tls.contexts import client_context, server_context
from ledgerstone.tls.settings import StoreSettings, tls_settings
from ledgerstone.tls.stores import read_keystore, read_truststore, readable_by_others
from tests.kit.certificates import Authority, Issued


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def issued(authority: Authority) -> Issued:
    return authority.issue("broker")


def file(directory: Path, content: bytes, name: str = "store") -> str:
    path = directory / name
    path.write_bytes(content)
    return str(path)


def shake_hands(server: dict[str, str], client: dict[str, str], host: str = "localhost") -> str:
    """The version that two sides agree on, without a network."""
    a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server_context(tls_settings(server)).context.wrap_bio(a, b, server_side=True)
    theirs = client_context(tls_settings(client)).context.wrap_bio(b, a, server_hostname=host)
    waiting = [theirs, ours]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
    assert not waiting
    return ours.version() or ""


@pytest.mark.parametrize("kind", ["PEM file", "PEM texts", "encrypted PEM", "PKCS12", "two files"])
def test_every_kind_of_store_serves(
    tmp_path: Path, authority: Authority, issued: Issued, kind: str
) -> None:
    match kind:
        case "PEM file":
            server = {"ssl.keystore.location": file(tmp_path, issued.pem)}
        case "PEM texts":
            server = {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": issued.key_pem.decode(),
                "ssl.keystore.certificate.chain": issued.chain_pem.decode(),
            }
        case "encrypted PEM":
            content = issued.encrypted_key_pem(b"pw") + issued.chain_pem
            server = {
                "ssl.keystore.location": file(tmp_path, content),
                "ssl.key.password": "pw",
            }
        case "PKCS12":
            # Many a file that is named as Java's own kind is of this one.
            server = {
                "ssl.keystore.type": "JKS",
                "ssl.keystore.location": file(tmp_path, issued.p12(b"changeit"), "broker.jks"),
                "ssl.keystore.password": "changeit",
            }
        case _:
            server = {
                "ssl.certificate.location": file(tmp_path, issued.chain_pem, "crt"),
                "ssl.key.location": file(tmp_path, issued.key_pem, "key"),
            }

    version = shake_hands(server, {"ssl.truststore.certificates": authority.pem.decode()})

    assert version == "TLSv1.3"


@pytest.mark.parametrize("password", [None, b"changeit"])
def test_a_truststore_can_be_pkcs12(
    tmp_path: Path, authority: Authority, issued: Issued, password: bytes | None
) -> None:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption

    trusted = pkcs12.PKCS12Certificate(authority.certificate, b"ca")
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password)
    content = pkcs12.serialize_java_truststore([trusted], encryption)
    client = {"ssl.truststore.location": file(tmp_path, content)}
    if password is not None:
        client["ssl.truststore.password"] = password.decode()
    server = {"ssl.keystore.location": file(tmp_path, issued.pem, "broker.pem")}

    assert shake_hands(server, client) == "TLSv1.3"


def refusal(store: StoreSettings) -> str:
    read = read_keystore if store.name == "ssl.keystore" else read_truststore
    with pytest.raises(ConfigError) as raised:
        read(store)
    assert "hunter2" not in str(raised.value)
    return str(raised.value)


def test_what_is_wrong_with_a_keystore_is_said(
    tmp_path: Path, authority: Authority, issued: Issued
) -> None:
    other = authority.issue("other")

    def said(content: bytes, **rest: str) -> str:
        location = file(tmp_path, content)
        return refusal(StoreSettings(name="ssl.keystore", location=location, **rest))

    assert "not the one of its first certificate" in said(other.key_pem + issued.chain_pem)
    assert "holds no private key" in said(issued.chain_pem)
    assert "holds no certificate" in said(issued.key_pem)
    assert "neither PEM nor PKCS12" in said(b"rubbish")
    assert "keytool -importkeystore" in said(b"\xfe\xed\xfe\xed" + bytes(100))
    assert "ssl.keystore.password is wrong" in said(issued.p12(b"x"), password="hunter2")
    assert "without ssl.keystore.password" in said(issued.p12(b"x"))
    assert "cannot be set with a PEM file" in said(issued.pem, password="hunter2")
    encrypted = issued.encrypted_key_pem(b"x") + issued.chain_pem
    assert "ssl.key.password is wrong" in said(encrypted, key_password="hunter2")
    assert "ssl.key.password" in said(encrypted)
    assert "is not encrypted" in said(issued.pem, key_password="hunter2")
    assert "larger than" in said(bytes(5 << 20))
    missing = StoreSettings(name="ssl.keystore", location=str(tmp_path / "none"))
    assert "cannot be read" in refusal(missing)


def test_what_is_wrong_with_a_truststore_is_said(tmp_path: Path, issued: Issued) -> None:
    def said(content: bytes, **rest: str) -> str:
        location = file(tmp_path, content)
        return refusal(StoreSettings(name="ssl.truststore", location=location, **rest))

    assert "holds no certificate" in said(issued.key_pem)
    assert "is broken" in said(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    assert "cannot be set with a PEM file" in said(issued.chain_pem, password="hunter2")


def test_a_listener_without_a_keystore_cannot_be(tmp_path: Path, issued: Issued) -> None:
    with pytest.raises(ConfigError, match="needs it"):
        server_context(tls_settings({}))
    values = {"ssl.keystore.location": file(tmp_path, issued.pem), "ssl.client.auth": "required"}
    with pytest.raises(ConfigError, match=r"ssl\.client\.auth=required"):
        server_context(tls_settings(values))


def test_the_wrong_host_is_refused_unless_nobody_looks(
    tmp_path: Path, authority: Authority, issued: Issued
) -> None:
    server = {"ssl.keystore.location": file(tmp_path, issued.pem)}
    client = {"ssl.truststore.certificates": authority.pem.decode()}

    with pytest.raises(ssl.SSLCertVerificationError, match=r"elsewhere\.example"):
        shake_hands(server, client, "elsewhere.example")
    client["ssl.endpoint.identification.algorithm"] = ""
    assert shake_hands(server, client, "elsewhere.example") == "TLSv1.3"


def test_an_expired_certificate_is_remarked_upon(tmp_path: Path, authority: Authority) -> None:
    old = authority.issue("broker", from_day=-9, to_day=-2)
    early = authority.issue("broker", from_day=3)
    now_ms = SystemClock().now_ms()

    def complaint(issued: Issued) -> str | None:
        location = file(tmp_path, issued.pem)
        return read_keystore(StoreSettings(name="ssl.keystore", location=location)).complaint(
            now_ms
        )

    assert "has expired on" in (complaint(old) or "")
    assert "counts from" in (complaint(early) or "")
    assert complaint(authority.issue("broker")) is None


def test_a_key_that_others_can_read_is_remarked_upon(tmp_path: Path, issued: Issued) -> None:
    store = StoreSettings(name="ssl.keystore", location=issued.write(tmp_path / "key"))

    silent = readable_by_others(store)
    (tmp_path / "key").chmod(0o640)

    assert silent is None
    assert "has mode 0640" in (readable_by_others(store) or "")


def each_byte_changed(certificate: x509.Certificate) -> Iterator[str]:
    """In a wrapping that is whole."""
    der = certificate.public_bytes(Encoding.DER)
    for at in range(len(der)):
        changed = bytearray(der)
        changed[at] ^= 0x40
        text = base64.encodebytes(bytes(changed)).decode()
        yield f"-----BEGIN CERTIFICATE-----\n{text}-----END CERTIFICATE-----\n"


@pytest.mark.filterwarnings("ignore")
def test_a_broken_certificate_is_an_error_of_its_setting_whatever_is_broken(
    authority: Authority, issued: Issued
) -> None:
    """A reload that fails in any other way would leave no trace."""
    key, said = issued.key_pem.decode(), set()
    stores = [
        (server_context, {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": pem})
        for pem in each_byte_changed(issued.certificate)
    ]
    stores += [
        (client_context, {"ssl.truststore.certificates": pem})
        for pem in each_byte_changed(authority.certificate)
    ]
    for load, store in stores:
        try:
            load(tls_settings(store))
        except ConfigError as error:
            said.add(error.reason.partition(":")[0])

    assert "holds a certificate that is broken" in said
    assert "holds a certificate that OpenSSL does not take" in said
