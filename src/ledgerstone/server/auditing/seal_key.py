"""The secret that seals of the audit log are made with. Grade D.

Made at the first start and never changed. A file that cannot be read, or that others may read, is
refused and never replaced: seals of another key would look like somebody else's.
"""

from typing import Final

from ledgerstone.clock import Dice
from ledgerstone.errors import StorageError
from ledgerstone.fs import Filesystem, parent_of
from ledgerstone.security.audit_seal import SECRET_BYTES
from ledgerstone.server.auditing.audit_file import make_durable_dir

KEY_FILE: Final = "audit.key"
_PREFIX: Final = b"ledgerstone-audit-key-1 "
_OTHERS: Final = 0o077


def load_or_create(fs: Filesystem, path: str, dice: Dice) -> bytes:
    """Synced before anything is sealed with it. OSError, StorageError."""
    found = load(fs, path)
    if found is not None:
        return found
    secret = dice.random_bytes(SECRET_BYTES)
    make_durable_dir(fs, parent_of(path))
    write_whole(fs, path, _PREFIX + secret.hex().encode() + b"\n")
    return secret


def load(fs: Filesystem, path: str) -> bytes | None:
    """None before the first start."""
    if not fs.exists(path):
        return None
    mode = fs.mode_of(path)
    if mode & _OTHERS:
        raise StorageError(
            f"{path} has mode {mode:#o}: others than its owner may seal with it; set it to 0o600, "
            "and take the key for known if somebody could read it"
        )
    file = fs.open_read_only(path)
    try:
        data = file.pread(1024, 0)
    finally:
        file.close()
    digits = data.removeprefix(_PREFIX).strip()
    try:
        secret = bytes.fromhex(digits.decode("ascii"))
    except ValueError:
        secret = b""
    if not data.startswith(_PREFIX) or len(secret) != SECRET_BYTES:
        # The content is secret even where it is damaged.
        raise StorageError(f"{path} holds no key of an audit log; bring it back from a copy")
    return secret


def write_whole(fs: Filesystem, path: str, content: bytes) -> None:
    """Crash here: the file is the old one or the new one, and no other's to read."""
    aside = f"{path}.tmp"
    if fs.exists(aside):
        fs.unlink(aside)
    file = fs.create_private(aside)
    try:
        file.pwrite(content, 0)
        file.fsync()
    finally:
        file.close()
    fs.rename(aside, path)
    fs.fsync_dir(parent_of(path))
