"""`ledgerstone up --secure`: a broker with TLS, a login and ACLs, for development. Grade S.

The page has the same certificate and the same users.

Everything is in `secure` below the data: an authority of its own, the broker's key, the admin's
password, and files that clients take as they are. What is there is used again, so that clients
keep working; what lacks is made. A file with a secret in it has mode 0600, or the start ends.
"""

import os
import socket
import stat
from pathlib import Path
from typing import Final

from ledgerstone.clock import Clock, Dice
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import ConfigError
from ledgerstone.storage.filenames import SECURE
from ledgerstone.tls.authority import KeyAndCertificate, is_good_for, issue, new_authority

ADMIN: Final = "admin"
LISTENER: Final = "SASL_SSL"
_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_PASSWORD_BYTES: Final = 18


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
        jaas = f'{_MODULE} required user_{ADMIN}="{self.password}";'
        return [
            f"listeners={LISTENER}://{self.listen}",
            f"ssl.keystore.location={self.directory / 'broker.pem'}",
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
            f"listener.name.sasl_ssl.plain.sasl.jaas.config={jaas}",
            f"authorizer.class.name={_AUTHORIZER}",
            f"super.users=User:{ADMIN}",
        ]

    def write_client_files(self, bootstrap: str) -> None:
        """Once the broker has its port."""
        ca = self.directory / "ca.pem"
        jaas = f'{_MODULE} required username="{ADMIN}" password="{self.password}";'
        java = {
            "bootstrap.servers": bootstrap,
            "security.protocol": LISTENER,
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": jaas,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(ca),
        }
        librdkafka = {
            "bootstrap.servers": bootstrap,
            "security.protocol": LISTENER,
            "sasl.mechanisms": "PLAIN",
            "sasl.username": ADMIN,
            "sasl.password": self.password,
            "ssl.ca.location": str(ca),
        }
        for name, content in (
            ("client.properties", java),
            ("librdkafka.conf", librdkafka),
            ("spark.conf", {f"kafka.{key}": value for key, value in java.items()}),
        ):
            text = "".join(f"{key}={value}\n" for key, value in content.items())
            _write(self.directory / name, text.encode())


def set_up(
    data: Path, listen: str, clock: Clock, dice: Dice, *, http: str | None = None
) -> SecureSetup:
    """`listen` and `http` are where the broker is reached: HOST:PORT."""
    # Clients need paths that hold wherever they run.
    directory = data.absolute() / SECURE
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in directory.iterdir():
        _check_mode(path)
    authority = _authority(directory, clock.now_ms())
    addresses = [listen, *(() if http is None else (http.rpartition("://")[2],))]
    _broker_key(directory, authority, _hosts(addresses), clock.now_ms())
    password_file = directory / "admin.password"
    is_new = not password_file.exists()
    if is_new:
        _write(password_file, dice.random_bytes(_PASSWORD_BYTES).hex().encode())
    password = password_file.read_text().strip()
    if not password or any(each in password for each in '"\\\n'):
        raise ConfigError("--secure", str(password_file), "must be a password without quotes")
    return SecureSetup(directory=directory, listen=listen, password=password, is_new=is_new)


def _authority(directory: Path, now_ms: int) -> KeyAndCertificate:
    key, certificate = directory / "ca.key", directory / "ca.pem"
    if not (key.exists() and certificate.exists()):
        made = new_authority("Ledgerstone development CA", now_ms)
        _write(key, made.key)
        _write(certificate, made.certificate, mode=0o644)
    return KeyAndCertificate(key.read_bytes(), certificate.read_bytes())


def _broker_key(
    directory: Path, authority: KeyAndCertificate, hosts: list[str], now_ms: int
) -> None:
    path = directory / "broker.pem"
    if path.exists() and is_good_for(path.read_bytes(), hosts, now_ms):
        return
    _write(path, issue(authority, "ledgerstone", hosts, now_ms).pem)


def _hosts(addresses: list[str]) -> list[str]:
    """What clients may call this broker."""
    hosts = [each.rpartition(":")[0].strip("[]") for each in addresses]
    own = [each for each in hosts if each not in ("", "0.0.0.0", "::")]
    return list(dict.fromkeys(["localhost", "127.0.0.1", "::1", socket.gethostname(), *own]))


def _check_mode(path: Path) -> None:
    found = path.lstat()
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        raise ConfigError("--secure", str(path), "must be a file of the user who starts the broker")
    if path.name != "ca.pem" and mode & 0o077:
        reason = f"holds a secret and has mode {mode:04o}; make it 0600"
        raise ConfigError("--secure", str(path), reason)


def _write(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Whole or not at all, and never readable by others for a moment."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
