"""What forms send, and where an action leads. Grade D."""

from base64 import b64decode
from binascii import Error as Base64Error
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from ledgerstone.server.http.server import HttpRequest, Page
from ledgerstone.web.router import NotShown
from ledgerstone.web.wording import visible

MAX_FIELDS: Final = 50


def form_of(request: HttpRequest) -> dict[str, str]:
    """The fields of a form; text as it was typed, line ends as browsers send them."""
    try:
        pairs = parse_qsl(
            request.body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError as error:
        # What and not where: a form may hold what nobody may see in a log.
        raise NotShown(400, f"this is no form: {type(error).__name__}") from None
    return dict(pairs)


def see_other(path: str, **query: str) -> Page:
    """Where a browser goes after an action, so that loading the page again does not repeat it."""
    where = f"{path}?{urlencode(query)}" if query else path
    assert where.startswith("/"), where
    assert not where.startswith("//"), where
    return Page(303, "", headers=(("Location", where),))


def path_of(*parts: str) -> str:
    """A path of such parts, whatever they hold."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def whole_number(fields: dict[str, str], name: str, *, at_most: int) -> int | None:
    """None where the field is missing or empty."""
    text = fields.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 19 or int(text) > at_most:
        raise NotShown(400, f"{name} must be a whole number from 0 to {at_most}, not {text[:40]!r}")
    return int(text)


def bytes_in(fields: dict[str, str], name: str) -> bytes:
    """What a field holds; the field `name_as` says how it was written: text, hex or base64."""
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
    """What a field shows of bytes, and how that is written: `bytes_in` makes the same of it."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.hex(), "hex"
    is_kept = text.isprintable() and visible(text) == text
    return (text, "text") if is_kept else (data.hex(), "hex")
