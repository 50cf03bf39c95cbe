"""`ledgerstone up --secure` and `cluster up --secure`: TLS, logins and ACLs, for development.
Grade S.

The page has the same certificate and the same users.

Everything is in `secure` below the data: an authority of its own, the broker's key, the admin's
password, and files that clients take as they are. What is there is used again, so that clients
keep working; what lacks is made. A file with a secret in it has mode 0600, or the start ends.
"""

import os
import socket
from pathlib import Path
from typing import Final

from ledgerstone.clock import Clock, Dice
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import ConfigError, NotPrivate
from ledgerstone.private_files import read_private, write_private
from ledgerstone.security.jaas import PLAIN_MODULE
from ledgerstone.storage.filenames import SECURE
from ledgerstone.tls.authority import KeyAndCertificate, is_good_for, issue, new_authority

ADMIN: Final = "admin"
LISTENER: Final = "SASL_SSL"
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_PASSWORD_BYTES: Final = 18
_CA: Final = "ca.pem"  # the one file without a secret
_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SecureSetup:
    """`is_new`: the password was made just now, and should be shown."""

    directory: Path
    listen: str  # HOST:PORT
    password: str = field(repr=False)
    is_new: bool

    @property
    def overrides(self) -> list[str]:
        """Settings of the broker."""
        jaas = f'{PLAIN_MODULE} required user_{ADMIN}="{self.password}";'
        return [
            f"listeners={LISTENER}://{self.listen}",
            f"ssl.keystore.location={self.directory / 'broker.pem'}",
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
            f"listener.name.sasl_ssl.plain.sasl.jaas.config={jaas}",
            f"authorizer.class.name={AUTHORIZER}",
            f"super.users=User:{ADMIN}",
        ]

    def write_client_files(self, bootstrap: str) -> None:
        """Once the broker has its port."""
        write_client_files(self.directory, bootstrap, self.password)


def set_up(
    data: Path, listen: str, clock: Clock, dice: Dice, *, http: str | None = None
) -> SecureSetup:
    """`listen` and `http` are where the broker is reached: HOST:PORT."""
    # Clients need paths that hold wherever they run.
    directory = data.absolute() / SECURE
    addresses = [listen, *(() if http is None else (http.rpartition("://")[2],))]
    hosts = [each.rpartition(":")[0] for each in addresses]
    prepare_keys(directory, hosts, clock.now_ms())
    password, is_new = kept_password(directory / "admin.password", dice)
    return SecureSetup(directory=directory, listen=listen, password=password, is_new=is_new)


def prepare_keys(directory: Path, hosts: list[str], now_ms: int) -> None:
    """`ca.key` and `ca.pem`, and `broker.pem` for this machine and the hosts."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_directory(directory)
    for path in directory.iterdir():
        if path.name != _CA:
            _read(path)
    authority = _authority(directory, now_ms)
    _broker_key(directory, authority, _hosts(hosts), now_ms)


def kept_password(path: Path, dice: Dice) -> tuple[str, bool]:
    """And whether it was made just now."""
    is_new = not path.exists()
    if is_new:
        _write(path, dice.random_bytes(_PASSWORD_BYTES).hex().encode())
    password = _read(path).decode("utf-8", "replace").strip()
    if not password or any(each in password for each in '"\\\n'):
        raise ConfigError("--secure", str(path), "must be a password without quotes")
    return password, is_new


def write_client_files(directory: Path, bootstrap: str, password: str) -> None:
    ca = directory / _CA
    java = {
        "bootstrap.servers": bootstrap,
        "security.protocol": LISTENER,
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN_MODULE} required username="{ADMIN}" password="{password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca),
    }
    librdkafka = {
        "bootstrap.servers": bootstrap,
        "security.protocol": LISTENER,
        "sasl.mechanisms": "PLAIN",
        "sasl.username": ADMIN,
        "sasl.password": password,
        "ssl.ca.location": str(ca),
    }
    for name, content in (
        ("client.properties", java),
        ("librdkafka.conf", librdkafka),
        ("spark.conf", {f"kafka.{key}": value for key, value in java.items()}),
    ):
        text = "".join(f"{key}={value}\n" for key, value in content.items())
        _write(directory / name, text.encode())


def _authority(directory: Path, now_ms: int) -> KeyAndCertificate:
    key, certificate = directory / "ca.key", directory / _CA
    if not (key.exists() and certificate.exists()):
        made = new_authority("Ledgerstone development CA", now_ms)
        _write(key, made.key)
        write_private(str(certificate), made.certificate, mode=0o644)
    return KeyAndCertificate(_read(key), certificate.read_bytes())


def _broker_key(
    directory: Path, authority: KeyAndCertificate, hosts: list[str], now_ms: int
) -> None:
    path = directory / "broker.pem"
    if path.exists() and is_good_for(_read(path), hosts, now_ms):
        return
    _write(path, issue(authority, "ledgerstone", hosts, now_ms).pem)


def _hosts(hosts: list[str]) -> list[str]:
    """What clients may call this broker."""
    bare = [each.strip("[]") for each in hosts]
    own = [each for each in bare if each not in ("", "0.0.0.0", "::")]
    return list(dict.fromkeys(["localhost", "127.0.0.1", "::1", socket.gethostname(), *own]))


def _read(path: Path) -> bytes:
    try:
        return read_private(str(path), _MOST_BYTES)
    except NotPrivate as error:
        raise ConfigError("--secure", str(path), error.reason) from error


def _check_directory(path: Path) -> None:
    """Who may write there can put an authority of their own in the place of this one."""
    found = path.stat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        reason = "must belong to the user who starts the broker, and be writable by no other"
        raise ConfigError("--secure", str(path), reason)


def _write(path: Path, content: bytes) -> None:
    write_private(str(path), content)
