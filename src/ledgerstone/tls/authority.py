"""A certificate authority of one's own, for development. Grade S."""

import datetime
import ipaddress
from collections.abc import Sequence
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY: Final = datetime.timedelta(days=1)
_AUTHORITY_DAYS: Final = 3650
_ISSUED_DAYS: Final = 825
# A certificate that ends sooner is made anew.
_LEAST_DAYS: Final = 30


class KeyAndCertificate(NamedTuple):
    """In PEM."""

    key: bytes
    certificate: bytes

    @property
    def pem(self) -> bytes:
        return self.key + self.certificate


def new_authority(name: str, now_ms: int) -> KeyAndCertificate:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = _builder(subject, subject, key.public_key(), now_ms, _AUTHORITY_DAYS)
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    usage = x509.KeyUsage(
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
    builder = builder.add_extension(constraints, critical=True).add_extension(usage, critical=True)
    return _signed(builder.add_extension(own, critical=False), key, key)


def issue(
    authority: KeyAndCertificate, name: str, hosts: Sequence[str], now_ms: int
) -> KeyAndCertificate:
    """A certificate for a server, or for a client."""
    authority_key = load_pem_private_key(authority.key, None)
    assert isinstance(authority_key, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(name), issuer.subject, key.public_key(), now_ms, _ISSUED_DAYS)
    usage = x509.ExtendedKeyUsage(
        [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    )
    builder = builder.add_extension(usage, critical=False)
    # Clients of Python 3.13 and later take no certificate that does not say which key signed it.
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    builder = builder.add_extension(signer, critical=False)
    if hosts:
        names = x509.SubjectAlternativeName([_host(each) for each in hosts])
        builder = builder.add_extension(names, critical=False)
    return _signed(builder, key, authority_key)


def is_good_for(certificate: bytes, hosts: Sequence[str], now_ms: int) -> bool:
    """Whether it is for all these hosts, and for a while."""
    found = x509.load_pem_x509_certificate(certificate)
    if found.not_valid_after_utc < _moment(now_ms) + _LEAST_DAYS * _DAY:
        return False
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return all(_host(each) in names for each in hosts)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now_ms: int,
    days: int,
) -> x509.CertificateBuilder:
    # Clocks of other machines may be behind.
    begin = _moment(now_ms) - _DAY
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + days * _DAY)
    )


def _signed(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    signing: ec.EllipticCurvePrivateKey,
) -> KeyAndCertificate:
    certificate = builder.sign(signing, hashes.SHA256())
    return KeyAndCertificate(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        certificate.public_bytes(Encoding.PEM),
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _moment(ms: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)
