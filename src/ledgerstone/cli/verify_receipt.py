"""`ledgerstone verify-receipt`: whether a receipt is what the broker signed. Shell.

Anybody can sign a paper with a key of their own, so a signature counts only under a key that is
trusted from elsewhere: given, asked of the broker, or pinned when the receipt was fetched. Exit
codes: 0 it holds; 1 it does not, and the text says why; 2 usage; 3 not a byte was changed, but
nobody says whose signature it is.
"""

import hmac
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from ledgerstone.cli.admin_http import AdminApi, AdminCallFailed, api_at, cluster_api
from ledgerstone.cli.key_options import (
    KeyBase64Option,
    KeyFileOption,
    KeyHexOption,
    read_key,
)
from ledgerstone.cli.options import JsonOption, connect
from ledgerstone.cli.output import flush, printable, write_json, write_line
from ledgerstone.cli.receipt_keys import keys_path, pinned
from ledgerstone.cli.supplements import supplements_beside
from ledgerstone.erasure.outputs import Status
from ledgerstone.erasure.receipt import ReceiptVerdict, parse, verify
from ledgerstone.erasure.receipt_text import render
from ledgerstone.erasure.sealing import (
    FINGERPRINT,
    FINGERPRINT_DIGITS,
    fingerprint_of,
    public_key_of,
)
from ledgerstone.erasure.secrets_file import Secrets, load
from ledgerstone.erasure.supplement import (
    missing_numbers,
    parse_supplement,
    standing,
    together,
    verify_supplement,
)
from ledgerstone.system import OsFilesystem

UNPROVEN_EXIT: Final = 3
_PUBLIC_KEY: Final = re.compile(r"[0-9a-fA-F]{64}")
_FINGERPRINT: Final = re.compile(FINGERPRINT + rf"([0-9a-fA-F]{{{FINGERPRINT_DIGITS},64}})")


class Trusted(NamedTuple):
    """A key that is trusted, or the fingerprint of one, and why."""

    key: bytes | str
    because: str

    def is_of(self, public_key: bytes) -> bool:
        if isinstance(self.key, bytes):
            return hmac.compare_digest(self.key, public_key)
        wanted = self.key[: len(FINGERPRINT) + FINGERPRINT_DIGITS].lower()
        return hmac.compare_digest(wanted, fingerprint_of(public_key).lower())

    def __str__(self) -> str:
        shown = self.key.hex() if isinstance(self.key, bytes) else self.key
        return f"{shown} ({self.because})"


def verify_receipt(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The receipt's JSON.")],
    supplements: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[SUPPLEMENT…]",
            help="Its supplements; without any, those beside FILE that `receipt --out` wrote.",
        ),
    ] = None,
    public_key: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|HEX|SHA256:…",
            help="The signer's public key: in a file, in hex, or its fingerprint.",
        ),
    ] = None,
    broker: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT|URL", help="Ask this broker, or its HTTP API, for its public key."
        ),
    ] = None,
    keys_file: Annotated[
        Path | None, typer.Option(help="The operator's erasure.keys: checks signer and key.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="The key it should be about; hex after 0x.")
    ] = None,
    key_hex: KeyHexOption = None,
    key_base64: KeyBase64Option = None,
    key_file: KeyFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a receipt: not a byte was changed, who signed it and, with the secrets, for which key.

    Who signed it is known by a key that you trust: --public-key, --broker, --keys-file, or the one
    that was pinned on this machine when the receipt came from its broker."""
    wanted = read_key(key, key_hex, key_base64, key_file)
    if wanted is not None and keys_file is None:
        raise typer.BadParameter("to check the key takes --keys-file", param_hint="--key")
    data = _read(file, "FILE")
    secrets = None if keys_file is None else _secrets(keys_file)
    trusted = list(_given(public_key, broker, secrets))
    salt = None if secrets is None else secrets.salt
    found, signer = check(data, trusted, key=wanted, salt=salt)
    paths = supplements or supplements_beside(file)
    added: list[bytes] = []
    if found.ok:
        added = [_read(path, "SUPPLEMENT") for path in paths]
        found = with_supplements(found, data, added, [path.name for path in paths])
    if as_json:
        write_json(_json(data, added, found, signer))
    else:
        _show(data, added, found, signer)
    flush()
    if not found.ok:
        raise typer.Exit(1)
    if not found.is_trusted:
        raise typer.Exit(UNPROVEN_EXIT)


def _json(
    data: bytes, added: list[bytes], found: ReceiptVerdict, signer: bytes | None
) -> dict[str, object]:
    return {
        "ok": found.ok and found.is_trusted,
        "intact": found.ok,
        "trusted": found.is_trusted,
        "public_key": None if signer is None else signer.hex(),
        "fingerprint": None if signer is None else fingerprint_of(signer),
        "reasons": found.reasons or (() if found.is_trusted else (_UNPROVEN,)),
        "notes": found.notes,
        "supplements": len(added) if found.ok else 0,
        "not_verified": _open_outputs(data, added) if found.ok else None,
    }


def check(
    data: bytes, trusted: list[Trusted], *, key: bytes | None = None, salt: bytes | None = None
) -> tuple[ReceiptVerdict, bytes | None]:
    """The verdict, and who signed it. Without anybody who is trusted, the pinned key counts."""
    found = verify(data, key=key, salt=salt)
    if not found.ok:
        return found, None
    content = parse(data)
    signer = bytes.fromhex(content["public_key"])
    if not trusted and (known := pinned(content["cluster_id"])) is not None:
        because = f"pinned for its cluster since {known.since} in {keys_path()}"
        trusted = [Trusted(known.public_key, because)]
    others = [each for each in trusted if not each.is_of(signer)]
    if others:
        reason = f"signed by {signer.hex()}, not by {others[0]}"
        return ReceiptVerdict(False, (reason,)), signer
    if not trusted:
        return found, signer
    notes = (f"signed with {signer.hex()}, {trusted[0].because}", *found.notes[1:])
    return found._replace(is_trusted=True, notes=notes), signer


_UNPROVEN: Final = "nobody says whose signature it is; anybody can sign a paper like this"


def _show(data: bytes, added: list[bytes], found: ReceiptVerdict, signer: bytes | None) -> None:
    if not found.ok:
        for reason in found.reasons:
            write_line(f"NOT GOOD: {printable(reason)}")
        return
    assert signer is not None
    if not found.is_trusted:
        write_line(f"UNPROVEN: not a byte was changed, but {_UNPROVEN}")
        write_line(f"  it is signed with  {signer.hex()}")
        write_line(f"  fingerprint        {fingerprint_of(signer)}")
        write_line("Say whom you trust: --public-key with what the operator gave you, or --broker")
        write_line("with the broker's address, or --keys-file with its erasure.keys.")
        return
    for line in render(parse(data)).splitlines():
        write_line(printable(line))
    for line in together(parse(data), [parse_supplement(each) for each in added]):
        write_line(printable(line))
    write_line("")
    for note in found.notes:
        write_line(f"ok: {printable(note)}")


# -- supplements ----------------------------------------------------------------------------------


def with_supplements(
    found: ReceiptVerdict, receipt: bytes, supplements: list[bytes], names: list[str]
) -> ReceiptVerdict:
    """One that does not hold spoils all of it: somebody wanted it to be believed."""
    notes: list[str] = []
    for data, name in zip(supplements, names, strict=True):
        one = verify_supplement(data, receipt)
        if not one.ok:
            return ReceiptVerdict(False, tuple(f"{name}: {reason}" for reason in one.reasons))
        notes += one.notes
    contents = [parse_supplement(each) for each in supplements]
    numbers = [each["number"] for each in contents]
    if len({*numbers}) != len(numbers):
        return ReceiptVerdict(False, ("two supplements have the same number",))
    if missing := missing_numbers(contents):
        listed = ", ".join(map(str, missing[:20]))
        notes.append(f"supplements that are not here: {listed}; the broker has them")
    return found._replace(notes=(*found.notes, *notes))


def _open_outputs(receipt: bytes, supplements: list[bytes]) -> list[str]:
    contents = [parse_supplement(each) for each in supplements]
    return [
        f"{each.kind} {each.name}"
        for each in standing(parse(receipt), contents)
        if each.status == Status.NOT_VERIFIED.value
    ]


# -- whom to trust --------------------------------------------------------------------------------


def _given(
    public_key: str | None, broker: str | None, secrets: Secrets | None
) -> Iterator[Trusted]:
    if public_key is not None:
        yield _public_key(public_key)
    if broker is not None:
        yield Trusted(_asked(broker), f"which the broker at {broker} says is its own")
    if secrets is not None:
        yield Trusted(public_key_of(secrets.signing_seed), "the one of the operator's secrets")


def _public_key(given: str) -> Trusted:
    text, because = given.strip(), "the one given"
    if _PUBLIC_KEY.fullmatch(text) is None and _FINGERPRINT.fullmatch(text) is None:
        text = _read(Path(given), "--public-key").decode("ascii", "replace").strip()
        because = f"the one in {given}"
    if _PUBLIC_KEY.fullmatch(text):
        return Trusted(bytes.fromhex(text), because)
    if _FINGERPRINT.fullmatch(text):
        return Trusted(text, because)
    raise typer.BadParameter(
        f"{given} holds neither a public key (64 hex digits) nor a fingerprint ({FINGERPRINT}…)",
        param_hint="--public-key",
    )


def _asked(broker: str) -> bytes:
    name = _api(broker).get("erasures-public-key").get("public_key")
    if not isinstance(name, str) or _PUBLIC_KEY.fullmatch(name) is None:
        raise AdminCallFailed(f"the broker at {broker} has no public key yet")
    return bytes.fromhex(name)


def _api(broker: str) -> AdminApi:
    if "://" in broker:
        return api_at(broker)
    with connect(broker) as client:
        return cluster_api(client)


def _read(path: Path, hint: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from error


def _secrets(path: Path) -> Secrets:
    found = load(OsFilesystem(), str(path))
    if found is None:
        raise typer.BadParameter(f"there is no {path}", param_hint="--keys-file")
    return found
