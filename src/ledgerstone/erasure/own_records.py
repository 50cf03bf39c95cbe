"""Records of the journal of erasures, read for what users can have put into them. Grade P.

Their values are JSON, so a name beyond ASCII lies there escaped, and their field names and times
are words and digits that a key may be. Of each record the texts of users are told, decoded; those
of a receipt inside it too. A record that is not what the broker writes is not told at all, and is
searched as any other. Records of other topics hold users' bytes as they are.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from ledgerstone.dataclasses import fields
from ledgerstone.erasure.erasure import (
    Acceptance,
    Erasure,
    Evidence,
    LostBroker,
    ReplicaScan,
    ScanOutcome,
    Stage,
    is_id,
)
from ledgerstone.erasure.journal import SECRETS_KEY
from ledgerstone.erasure.journal_breaks import BREAKS_KEY, Break
from ledgerstone.erasure.key_print import KeyPrint
from ledgerstone.erasure.outputs import (
    GROUP,
    VERIFIER,
    KnownOutput,
    Reading,
    Status,
    Supplement,
    UnverifiedReason,
)
from ledgerstone.erasure.own_files import json_fields
from ledgerstone.erasure.receipt_words import OWN_TEXTS, RECEIPT_NAMES, TIME_NAMES

_KINDS: Final = (Erasure, ReplicaScan, Evidence, Acceptance, LostBroker, Break)
_NAMES: Final = frozenset({
    "version", "length", "telling", "rolling", "sip", "hmac_sha256", "public_key", "breaks",
    *(each.name for kind in _KINDS for each in fields(kind)),
    *KnownOutput._fields, *Supplement._fields,
})  # fmt: skip
_WORDS: Final = frozenset(
    [
        *(
            each.value
            for kind in (Stage, ScanOutcome, Reading, UnverifiedReason, Status)
            for each in kind
        ),
        *(GROUP, VERIFIER, *OWN_TEXTS),
    ]
)
# Ids, digests and ciphers: nobody's words. A value of another form is told all the same.
_MADE: Final = {
    "id": re.compile(r"ER-[0-9A-Z]{16}"),
    **dict.fromkeys(("topic_id", "incarnation_id"), re.compile(r"[A-Za-z0-9_-]{22}")),
    "sealed_key": re.compile(r"[A-Za-z0-9+/]*={0,2}"),
    **dict.fromkeys(
        ("rolling", "sip", "hmac_sha256", "digest", "public_key", "signature", "receipt_sha256"),
        re.compile(r"[0-9a-f]*"),
    ),
    **dict.fromkeys(TIME_NAMES, re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{12}Z")),
}


def journal_texts(key: bytes, value: bytes | None) -> list[bytes] | None:
    """None for a record that the broker did not write."""
    if key not in (SECRETS_KEY, BREAKS_KEY) and not is_id(key.decode("ascii", "replace")):
        return None
    if value is None:
        return []
    try:
        content = json.loads(value)
        if not isinstance(content, dict) or not _is_as_written(content, value):
            return None
        papers = [content.pop("receipt", None)]
        for each in content.get("supplements", ()):
            papers.append(each.pop("document"))
        texts = list(_texts(content, _NAMES))
        for paper in papers:
            if paper is not None:
                texts += _texts(json.loads(paper), RECEIPT_NAMES)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return texts


def sealed_print(value: bytes | None) -> KeyPrint | None:
    """Of the key that a record of the journal holds sealed: a form of it, since it opens with the
    operator's secrets."""
    try:
        content = json.loads(value or b"{}")
        if content.get("sealed_key") is None:
            return None
        return KeyPrint.from_json(content["key_print"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _is_as_written(content: dict[str, Any], value: bytes) -> bool:
    """Nothing is in the bytes that is not in the content."""
    journal = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    return value in (journal, json.dumps(content).encode())


def _texts(content: object, names: frozenset[str]) -> Iterator[bytes]:
    known = _without_made(content)
    return (each.content for each in json_fields(known, names=names, words=_WORDS))


def _without_made(content: object) -> object:
    if isinstance(content, dict):
        return {
            name: None if _is_made(name, value) else _without_made(value)
            for name, value in content.items()
        }
    if isinstance(content, list):
        return [_without_made(each) for each in content]
    return content


def _is_made(name: str, value: object) -> bool:
    form = _MADE.get(name)
    return form is not None and isinstance(value, str) and form.fullmatch(value) is not None
