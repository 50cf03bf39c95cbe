"""`erasure.keys`: the salt of all fingerprints and the key that signs receipts. Grade D.

Made at first use and never changed: with another salt no print would be found again, and no
receipt be checked against a key. So a file that cannot be read, or that others may read, is refused
and never replaced. One that nothing was made with may be set aside, where the cluster has chosen
others; it is kept. Contract: the section "Secrets" of README.md.
"""

import json
from base64 import b64decode, b64encode
from typing import Any, Final

from ledgerstone.clock import Dice
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.key_print import SALT_BYTES, PrintKey
from ledgerstone.errors import CorruptFile
from ledgerstone.fs import Filesystem, parent_of
from ledgerstone.storage.filenames import TMP

SECRETS_FILE: Final = "erasure.keys"
# Behind the name of a file that was set aside: the first digits of its public key follow.
ASIDE: Final = ".aside-"
ASIDE_DIGITS: Final = 16
VERSION: Final = 1
SEED_BYTES: Final = 32

_MAX_BYTES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    salt: bytes = field(repr=False)
    signing_seed: bytes = field(repr=False)  # the private half of an Ed25519 key
    created_ms: int

    @property
    def print_key(self) -> PrintKey:
        return PrintKey.from_salt(self.salt)


def load_or_create(fs: Filesystem, path: str, *, dice: Dice, now_ms: int) -> Secrets:
    """What the file holds; the first call makes it, synced before anything relies on it."""
    found = load(fs, path)
    if found is not None:
        return found
    made = Secrets(
        salt=dice.random_bytes(SALT_BYTES),
        signing_seed=dice.random_bytes(SEED_BYTES),
        created_ms=now_ms,
    )
    store(fs, path, made)
    return made


def load(fs: Filesystem, path: str) -> Secrets | None:
    """None before the first use."""
    try:
        file = fs.open_private(path)
    except FileNotFoundError:
        return None
    try:
        data = file.pread(min(file.size(), _MAX_BYTES + 1), 0)
    finally:
        file.close()
    try:
        return secrets_from_text(data)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        # The content is secret even where it is damaged, so the reason is a fault, not a quote.
        reason = f"{len(data)} bytes that are no secrets ({type(error).__name__})"
        raise CorruptFile(path, 0, f"{reason}; bring it back from a copy") from None


def secrets_text(secrets: Secrets) -> bytes:
    """The content of the file."""
    content = {
        "version": VERSION,
        "salt": b64encode(secrets.salt).decode("ascii"),
        "signing_key": b64encode(secrets.signing_seed).decode("ascii"),
        "created_ms": secrets.created_ms,
    }
    return json.dumps(content, indent=1).encode() + b"\n"


def store(fs: Filesystem, path: str, secrets: Secrets) -> None:
    """Where there are none yet; synced when it returns."""
    temporary = path + TMP
    # What a crash left under this name was never in use, and may have another mode.
    if fs.exists(temporary):
        fs.unlink(temporary)
    file = fs.create_private(temporary)
    try:
        file.pwrite(secrets_text(secrets), 0)
        file.fsync()
    finally:
        file.close()
    # Crash here: no secrets yet, and nothing was made with these.
    fs.rename(temporary, path)
    fs.fsync_dir(parent_of(path))


def set_aside(fs: Filesystem, path: str, own: Secrets, *, public_key: str) -> str:
    """Out of the way, and kept: where it is now. `store` follows."""
    number, aside = 0, f"{path}{ASIDE}{public_key[:ASIDE_DIGITS]}"
    # The same ones may have been set aside before.
    while fs.exists(aside) and load(fs, aside) != own:
        number += 1
        aside = f"{path}{ASIDE}{public_key[:ASIDE_DIGITS]}.{number}"
    fs.rename(path, aside)
    # Crash here: there are no secrets, and whoever offered others offers them again.
    fs.fsync_dir(parent_of(path))
    return aside


def secrets_from_text(data: bytes) -> Secrets:
    """ValueError, KeyError or TypeError where it is not what `secrets_text` makes."""
    if len(data) > _MAX_BYTES:
        raise ValueError(f"{len(data)} bytes, at most {_MAX_BYTES}")
    content: dict[str, Any] = json.loads(data)
    if content["version"] != VERSION or type(content["created_ms"]) is not int:
        raise ValueError("version or created_ms")
    salt = b64decode(content["salt"], validate=True)
    seed = b64decode(content["signing_key"], validate=True)
    if len(salt) != SALT_BYTES or len(seed) != SEED_BYTES:
        raise ValueError(f"{len(salt)} and {len(seed)} bytes")
    return Secrets(salt=salt, signing_seed=seed, created_ms=content["created_ms"])
