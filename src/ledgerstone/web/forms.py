"""Reading forms, and redirecting after an action. Grade D."""

from base64 import b64decode
from binascii import Error as Base64Error
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from ledgerstone.server.http.server import HttpRequest, Page
from ledgerstone.web.router import NotShown
from ledgerstone.web.wording import visible

MAX_FIELDS: Final = 50


def form_of(request: HttpRequest) -> dict[str, str]:
    """The fields of a form; text as typed, line ends as browsers send them."""
    try:
        pairs = parse_qsl(
            request.body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError as error:
        # Only the kind of error: a form may hold text that must not be logged.
        raise NotShown(400, f"this is not a form: {type(error).__name__}") from None
    return dict(pairs)


def see_other(path: str, **query: str) -> Page:
    """Redirects after an action, so that reloading the page does not repeat it."""
    where = f"{path}?{urlencode(query)}" if query else path
    assert where.startswith("/"), where
    assert not where.startswith("//"), where
    return Page(303, "", headers=(("Location", where),))


def path_of(*parts: str) -> str:
    """A path of these parts, whatever characters they have."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def whole_number(fields: dict[str, str], name: str, *, at_most: int) -> int | None:
    """None if the field is missing or empty."""
    text = fields.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 19 or int(text) > at_most:
        raise NotShown(400, f"{name} must be a whole number from 0 to {at_most}, not {text[:40]!r}")
    return int(text)


def bytes_in(fields: dict[str, str], name: str) -> bytes:
    """A field as bytes; the field `name_as` says how it is written: text, hex or base64."""
    text, written = fields.get(name, ""), fields.get(f"{name}_as", "text")
    try:
        if written == "hex":
            return bytes.fromhex(text.strip().removeprefix("0x"))
        if written == "base64":
            return b64decode(text.strip(), validate=True)
    except (ValueError, Base64Error):
        raise NotShown(400, f"The {name} is not {written}.") from None
    # Browsers send every line end of a text field as two characters.
    return text.replace("\r\n", "\n").encode()


def as_field(data: bytes) -> tuple[str, str]:
    """Bytes as text for a field, and how it is written; `bytes_in` is the inverse."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.hex(), "hex"
    is_kept = text.isprintable() and visible(text) == text
    return (text, "text") if is_kept else (data.hex(), "hex")
