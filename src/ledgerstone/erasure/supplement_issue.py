"""Taking in evidence after the receipt: what is new, what is too much, and signing it. Grade P.

The same evidence twice gives one supplement. How many are kept, and how many bytes, is bounded:
outputs that the receipt names always find room, others share a few places. Contract: README.md,
"Supplements".
"""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from ledgerstone.dataclasses import replace
from ledgerstone.erasure.changes import checked_evidence
from ledgerstone.erasure.erasure import Erasure, Evidence, Stage
from ledgerstone.erasure.outputs import Status, Supplement
from ledgerstone.erasure.receipt import canonical
from ledgerstone.erasure.receipt_words import (
    KIND_SUPPLEMENT,
    STATEMENT_SUPPLEMENT,
    SYSTEM_CLOCK,
    VIRTUAL_CLOCK,
)
from ledgerstone.erasure.sealing import public_key_of, sign
from ledgerstone.erasure.standing import covered, worst_of
from ledgerstone.erasure.supplement import MAX_BYTES, VERSION
from ledgerstone.errors import InvalidRequest, InvariantViolation
from ledgerstone.time_text import iso_time
from ledgerstone.uuid_text import uuid_to_text

MAX_WORDS: Final = 64
# Of one output; of outputs that the receipt does not name; of all together.
MAX_PER_OUTPUT: Final = 8
MAX_UNNAMED: Final = 16
MAX_TOTAL_BYTES: Final = 2 << 20


def new_words(
    erasure: Erasure, evidence: Sequence[Evidence], *, salt: bytes
) -> tuple[Evidence, ...]:
    """What a supplement has to say; empty where receipt and supplements have said all of it."""
    if erasure.stage is not Stage.RECEIPTED or erasure.receipt is None:
        raise InvariantViolation(f"{erasure.id} is {erasure.stage.value}: no receipt to supplement")
    if not 0 < len(evidence) <= MAX_WORDS:
        raise InvalidRequest(f"{len(evidence)} words in one piece of evidence, at most {MAX_WORDS}")
    words = tuple(checked_evidence(erasure, each, salt=salt) for each in evidence)
    if len({(each.verifier, each.group) for each in words}) != 1:
        raise InvalidRequest("a supplement is of one verifier and one group")
    said = _said(erasure, words[0].verifier, words[0].group)
    if all(said.get(each.output) == (each.outcome.value, each.evidence) for each in words):
        return ()
    _check_room(erasure, words[0].verifier, words[0].group)
    return words


def _said(erasure: Erasure, verifier: str, group: str) -> dict[str, tuple[str, str]]:
    """The last word about each output of this verifier and group. What the receipt holds counts
    only where it made the output a verified one: else the same word, given later, is news."""
    said: dict[str, tuple[str, str]] = {}
    last = next(
        (
            each
            for each in reversed(erasure.supplements)
            if (each.verifier, each.group) == (verifier, group)
        ),
        None,
    )
    if last is not None:
        for word in json.loads(last.document)["words"]:
            said[word["output"]] = (word["verdict"], word["evidence"])
        return said
    verified = {
        (each.kind, each.name) for each in erasure.outputs if each.status is Status.VERIFIED
    }
    if all(each in verified for each in covered(verifier, group)):
        for each in erasure.evidence:
            if (each.verifier, each.group) == (verifier, group):
                said[each.output] = (each.outcome.value, each.evidence)
    return said


def _check_room(erasure: Erasure, verifier: str, group: str) -> None:
    named = {(each.kind, each.name) for each in erasure.outputs}
    place = covered(verifier, group)[0]
    counts: dict[tuple[str, str], int] = {}
    for each in erasure.supplements:
        known = covered(each.verifier, each.group)[0]
        counts[known] = counts.get(known, 0) + 1
    if counts.get(place, 0) >= MAX_PER_OUTPUT:
        raise InvalidRequest(
            f"{erasure.id}: {' '.join(place)[:200]} has {MAX_PER_OUTPUT} supplements, the most an "
            "output may have"
        )
    unnamed = [each for each in counts if each not in named]
    if place not in named and place not in counts and len(unnamed) >= MAX_UNNAMED:
        raise InvalidRequest(
            f"{erasure.id} has supplements of {MAX_UNNAMED} outputs that its receipt does not "
            "name, the most it may"
        )


def with_supplement(
    erasure: Erasure,
    words: Sequence[Evidence],
    *,
    cluster_id: str,
    signing_seed: bytes,
    now_ms: int,
) -> Erasure:
    """The successor that holds the signed document; `words` are those of `new_words`."""
    number = erasure.supplements[-1].number + 1 if erasure.supplements else 1
    data = _issue(
        erasure, words, number, cluster_id=cluster_id, signing_seed=signing_seed, now_ms=now_ms
    )
    total = sum(len(each.document) for each in erasure.supplements) + len(data)
    if len(data) > MAX_BYTES or total > MAX_TOTAL_BYTES:
        raise InvalidRequest(
            f"{erasure.id}: a supplement of {len(data)} bytes, {total} with those before; at most "
            f"{MAX_BYTES} and {MAX_TOTAL_BYTES}"
        )
    verdict = worst_of(each.outcome for each in words)
    assert verdict is not None, "a supplement without words"
    made = Supplement(
        number, words[0].verifier, words[0].group, verdict.value, now_ms, data.decode("ascii")
    )
    return replace(erasure, supplements=(*erasure.supplements, made))


def _issue(
    erasure: Erasure,
    words: Sequence[Evidence],
    number: int,
    *,
    cluster_id: str,
    signing_seed: bytes,
    now_ms: int,
) -> bytes:
    verdict = worst_of(each.outcome for each in words)
    assert erasure.receipt is not None
    assert verdict is not None
    verifier, group = words[0].verifier, words[0].group
    content = {
        "version": VERSION,
        "kind": KIND_SUPPLEMENT,
        "id": erasure.id,
        "number": number,
        "cluster_id": cluster_id,
        "topic": erasure.topic,
        "topic_id": uuid_to_text(erasure.topic_id),
        "receipt_sha256": sha256(erasure.receipt.encode("ascii")).hexdigest(),
        "clock": VIRTUAL_CLOCK if erasure.on_virtual_clock else SYSTEM_CLOCK,
        "verifier": verifier,
        "group": group,
        "covers": [{"kind": kind, "name": name} for kind, name in covered(verifier, group)],
        "verdict": verdict.value,
        "words": [
            {
                "output": each.output,
                "verdict": each.outcome.value,
                "evidence": each.evidence,
                "at": iso_time(each.given_ms),
            }
            for each in words
        ],
        "issued_at": iso_time(now_ms),
        "statement": STATEMENT_SUPPLEMENT,
        "public_key": public_key_of(signing_seed).hex(),
    }
    return canonical({**content, "signature": sign(signing_seed, canonical(content)).hex()})
