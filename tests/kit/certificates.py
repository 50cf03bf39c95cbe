"""Certificates for tests: an authority, and what it issues, as PEM and PKCS12 files."""

import datetime
import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ledgerstone.system import SystemClock

DAY = datetime.timedelta(days=1)
_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


@dataclass(frozen=True)
class Issued:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    authority: x509.Certificate

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def encrypted_key_pem(self, password: bytes) -> bytes:
        encryption = BestAvailableEncryption(password)
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)

    @property
    def chain_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def pem(self) -> bytes:
        return self.key_pem + self.chain_pem

    def p12(self, password: bytes) -> bytes:
        return pkcs12.serialize_key_and_certificates(
            b"me", self.key, self.certificate, [self.authority], BestAvailableEncryption(password)
        )

    def write(self, path: Path) -> str:
        path.write_bytes(self.pem)
        path.chmod(0o600)
        return str(path)


class Authority:
    def __init__(self, common_name: str = "test CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = name(common_name)
        public = self._key.public_key()
        own = x509.SubjectKeyIdentifier.from_public_key(public)
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self.certificate = self._sign(
            self._builder(self._name, public, 0, 30)
            .add_extension(constraints, critical=True)
            .add_extension(_SIGNS, critical=True)
            .add_extension(own, critical=False)
        )

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def write(self, path: Path) -> str:
        path.write_bytes(self.pem)
        return str(path)

    def issue(
        self,
        subject: str | x509.Name,
        hosts: Sequence[str] = ("127.0.0.1", "localhost"),
        *,
        from_day: int = -1,
        to_day: int = 30,
    ) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        if isinstance(subject, str):
            subject = name(subject)
        builder = self._builder(subject, key.public_key(), from_day, to_day)
        if hosts:
            names = x509.SubjectAlternativeName([_general(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        usage = x509.ExtendedKeyUsage(
            [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        )
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(signer, critical=False)
        certificate = self._sign(builder.add_extension(usage, critical=False))
        return Issued(key, certificate, self.certificate)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, from_day: int, to_day: int
    ) -> x509.CertificateBuilder:
        now_ms = SystemClock().now_ms()
        now = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + from_day * DAY - DAY / 24)
            .not_valid_after(now + to_day * DAY)
        )

    def _sign(self, builder: x509.CertificateBuilder) -> x509.Certificate:
        return builder.sign(self._key, hashes.SHA256())

    def trusting(
        self, shown: Issued | None = None, directory: Path | None = None
    ) -> ssl.SSLContext:
        """What a client has that trusts this authority."""
        context = ssl.create_default_context(cadata=self.pem.decode())
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default since Python 3.13
        if shown is not None:
            assert directory is not None
            context.load_cert_chain(shown.write(directory / "client.pem"))
        return context


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
