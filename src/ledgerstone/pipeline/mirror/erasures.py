"""Erases at the target what is erased at the source, and tells the source how it ended. Shell.

The copied tombstone of an erasure has its id in a header. The target gets an erasure of its own for
the same key, with its own passes, scan and receipt; once there is a receipt, the source gets its
hash as evidence, under the mirror's name. The key is never noted: it is read from the copied
tombstone when the target is asked. Contract: docs/connect.md, "Mirrors".
"""

import json
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from ledgerstone.client.blocking import Client
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import KafkaError
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.mirror.api import ApiFailed, ClusterApi
from ledgerstone.pipeline.mirror.marks import marked
from ledgerstone.pipeline.mirror.notes import ErasureState, MirrorNotes, NotedErasure
from ledgerstone.pipeline.mirror.reading import read_table
from ledgerstone.spark.errors import DataLoss
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.types import TopicPartition

# A source that does not know the erasure: it came with the records from yet another cluster.
_MOST_TRIES: Final = 100
_NOT_FOUND: Final = 404
_RECEIPTED: Final = "receipted"
_NOTHING_THERE: Final = "not_found"
_CLEAN, _RESIDUE, _UNKNOWN = "clean", "residue", "unknown"


class Verdict(NamedTuple):
    outcome: str
    evidence: str
    state: ErasureState = ErasureState.OVER


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureCarrier:
    """For one round. `name` is the mirror's: its group, and what it is called in receipts."""

    name: str
    topics: dict[str, str]
    notes: MirrorNotes
    source: Client
    target: Client
    source_api: ClusterApi
    target_api: ClusterApi

    def carry(self) -> Iterator[str]:
        """Does the next step of every erasure; says what has changed, and what stands in the way.
        Whatever fails is tried again in the next round."""
        for each in self.notes.erasures():
            try:
                yield from self._next(each)
            except (ApiFailed, KafkaError) as error:
                yield f"{each.id}: {error}"

    def _next(self, erasure: NotedErasure) -> Iterator[str]:
        verdict: Verdict | None = None
        match erasure.state:
            case ErasureState.SEEN if not self.target_api.addresses:
                verdict = Verdict(
                    _UNKNOWN, "the tombstone was copied; that cluster cannot show that it is done"
                )
            case ErasureState.SEEN:
                key = self._key_of(erasure)
                if key is not None:
                    yield self.ask_target(erasure, key)
                    return
                self.notes.note_erasure(erasure._replace(state=ErasureState.LOST))
                verdict = _lost()
            case ErasureState.ASKED | ErasureState.FOUND:
                verdict = self._verdict(erasure)
            case ErasureState.LOST:
                verdict = _lost()
            case ErasureState.MISSED:
                verdict = Verdict(
                    _UNKNOWN,
                    "its tombstone was removed before the mirror read it; keys that the original "
                    "no longer has were deleted from the copy, which nobody scanned",
                )
        if verdict is not None and verdict.state is not erasure.state:
            yield self._tell_source(erasure, verdict)

    # -- the target -----------------------------------------------------------------------------

    def ask_target(self, erasure: NotedErasure, key: bytes) -> str:
        copy = self.topics[erasure.topic]
        target_id = self._asked_before(copy, erasure.id)
        if target_id is None:
            wish = {
                "key": b64encode(key).decode(),
                "reason": self._reason(erasure.id),
                "requested_by": self.name,
            }
            made = self.target_api.post(f"topics/{quote(copy, safe='')}/erasures", wish)
            target_id = str(made["erasures"][0]["id"])
        asked = erasure._replace(state=ErasureState.ASKED, target_id=target_id)
        self.notes.note_erasure(asked)
        return f"{erasure.id}: the target erases the key of {copy} as {target_id}"

    def _reason(self, erasure_id: str) -> str:
        return f"{erasure_id} of {self.source.session.cluster.cluster_id}"

    def _asked_before(self, copy: str, erasure_id: str) -> str | None:
        """By a round that died before it could note it."""
        path = first = f"erasures?topic={quote(copy, safe='')}"
        while True:
            page = self.target_api.get(path)
            for each in page["erasures"]:
                if each["reason"] == self._reason(erasure_id):
                    return str(each["id"])
            if not isinstance(page.get("next"), str):
                return None
            path = f"{first}&after={quote(page['next'], safe='')}"

    def _key_of(self, erasure: NotedErasure) -> bytes | None:
        """From the copied tombstone, or from the original; None if both are gone."""
        copy = TopicPartition(self.topics[erasure.topic], erasure.partition)
        original = TopicPartition(erasure.topic, erasure.partition)
        places = [(self.source, original, erasure.source_offset)]
        if erasure.target_offset is not None:
            places.insert(0, (self.target, copy, erasure.target_offset))
        for client, partition, offset in places:
            try:
                rows = read_table(client, OffsetRange(partition, offset, offset + 1))
            except DataLoss:
                continue
            for each in marked(rows):
                if each.erasure_id == erasure.id:
                    key: bytes | None = rows.column("key")[each.row].as_py()
                    return key
        return None

    def _verdict(self, erasure: NotedErasure) -> Verdict | None:
        """None while the target is at it."""
        path = f"erasures/{quote(erasure.target_id or '', safe='')}"
        now = self.target_api.get(path)
        if now["has_receipt"]:
            return self._by_receipt(erasure, self.target_api.get_bytes(f"{path}/receipt"), now)
        if now["status"] == "residue found":
            return Verdict(_RESIDUE, f"{erasure.target_id} has found the key", ErasureState.FOUND)
        if now["is_over"]:
            return Verdict(_UNKNOWN, f"{erasure.target_id} was given up: {now['stage']}")
        return None

    def _by_receipt(self, erasure: NotedErasure, receipt: bytes, now: dict[str, Any]) -> Verdict:
        try:
            content = json.loads(receipt)
            exceptions = len(content.get("exceptions", ()))
        except (ValueError, AttributeError, TypeError) as error:
            raise ApiFailed(f"the receipt of {erasure.target_id}: {error}") from error
        digest = sha256(receipt).hexdigest()
        said = f"{erasure.target_id}, {now['stage']}, receipt sha256 {digest}"
        if exceptions:
            return Verdict(_UNKNOWN, f"{said}, {exceptions} exceptions")
        if now["stage"] not in (_RECEIPTED, _NOTHING_THERE):
            return Verdict(_UNKNOWN, said)
        left = now.get("outputs_not_verified") or 0
        return Verdict(_CLEAN, f"{said}, {left} outputs of the copy not verified")

    # -- the source -----------------------------------------------------------------------------

    def _tell_source(self, erasure: NotedErasure, verdict: Verdict) -> str:
        copy = self.topics[erasure.topic]
        output = f"mirror {self.target.session.cluster.cluster_id} {copy}"
        word = {"output": output, "verdict": verdict.outcome, "evidence": verdict.evidence}
        body = {"verifier": self.name, "group": self.name, "words": [word]}
        try:
            self.source_api.post(f"erasures/{quote(erasure.id, safe='')}/evidence", body)
        except ApiFailed as error:
            tries = erasure.tries + 1
            is_foreign = error.status == _NOT_FOUND and tries >= _MOST_TRIES
            state = verdict.state if is_foreign else erasure.state
            self.notes.note_erasure(erasure._replace(tries=tries, state=state))
            return f"{erasure.id}: {verdict.outcome}, and the source cannot be told: {error}"
        self.notes.note_erasure(erasure._replace(state=verdict.state, tries=0))
        return f"{erasure.id}: {verdict.outcome}: {verdict.evidence}"


def carry_key(carrier: ErasureCarrier, erasure_id: str, topic: str, key: bytes) -> str:
    """An operator gives the key of an erasure whose tombstone the mirror never read."""
    if topic not in carrier.topics:
        raise PipelineError(f"{topic} is not mirrored here")
    known = carrier.notes.erasure(erasure_id) or NotedErasure(erasure_id, topic, -1, -1, None)
    if known.target_id is not None:
        return f"{erasure_id}: the target erases the key as {known.target_id}"
    return carrier.ask_target(known, key)


def _lost() -> Verdict:
    return Verdict(
        _UNKNOWN, "the copied tombstone was removed before the target could be asked to erase"
    )
