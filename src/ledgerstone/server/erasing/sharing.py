"""The secrets of erasures on every broker that may lead the journal. Grade D.

Whoever has them offers them to the other replicas of the journal, at the addresses that the
metadata name; nobody can ask for them. They travel sealed for a key that the receiver has made for
this life, and lie there in `erasure.keys` before an erasure is taken. A broker with other secrets
keeps them and says so. Contract: erasure/README.md, "Several brokers"; docs/security.md.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from ledgerstone.clock import Clock, Dice
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.host_messages import WorkKind, decoded, encoded
from ledgerstone.erasure.secrets_file import Secrets, load, secrets_from_text, secrets_text, store
from ledgerstone.errors import InvalidRequest, KafkaError, LogStorageError, StorageError
from ledgerstone.fs import Filesystem
from ledgerstone.server.erasing.journal_topic import JOURNAL
from ledgerstone.server.erasing.others import OtherBrokers, Said, Unanswered

_LOG: Final = logging.getLogger(__name__)
_REFUSED: Final = (OSError, StorageError, KafkaError)
# A broker that did not take them is offered them again.
_AGAIN_MS: Final = 1_000


@dataclass(slots=True, kw_only=True)
class SecretsSharing:
    clock: Clock
    dice: Dice
    fs: Filesystem
    path: Callable[[], str]
    others: OtherBrokers
    on_taken: Callable[[], None] = lambda: None  # secrets came from another broker
    on_shared: Callable[[], None] = lambda: None
    # Of other replicas of the journal, by broker and incarnation: the public key of what they have.
    held: dict[tuple[int, bytes], str] = field(default_factory=dict)
    refusals: dict[int, str] = field(default_factory=dict)
    _asking: dict[int, None] = field(default_factory=dict)
    _without: dict[int, None] = field(default_factory=dict)  # that said they have none
    _due_ms: int | None = 0
    _box_seed: bytes | None = None

    # -- who has them -----------------------------------------------------------------------------

    @property
    def replicas(self) -> list[int]:
        """Other brokers that may lead the journal."""
        journal = self.others.image().partition(*JOURNAL)
        own_id = self.others.node_id
        if journal is None or own_id not in journal.replicas or self.others.links is None:
            return []
        return [each for each in journal.replicas if each != own_id]

    def why_not_shared(self, public_key: str) -> str | None:
        """Why a broker that is in sync, and so may lead next, has not these secrets yet.
        LogStorageError where it never will."""
        journal = self.others.image().partition(*JOURNAL)
        in_sync = () if journal is None else journal.isr
        held = {each: self._held_by(each) for each in self.replicas if each in in_sync}
        for broker_id, found in held.items():
            if found not in (None, public_key):
                raise LogStorageError(
                    f"broker {broker_id} has other secrets, with the public key {found}, not "
                    f"{public_key}: move the file away that is not the cluster's"
                )
        waiting = next((each for each, found in held.items() if found is None), None)
        if waiting is None:
            return None
        return self.refusals.get(waiting, f"broker {waiting} has no secrets yet")

    def may_make(self) -> str | None:
        """Secrets are made where no replica in sync has any; else why not."""
        journal = self.others.image().partition(*JOURNAL)
        for broker_id in self.replicas:
            if journal is not None and broker_id in journal.isr:
                held = self._held_by(broker_id)
                if held is None and broker_id not in self._without:
                    return self.refusals.get(broker_id, f"broker {broker_id} is being asked")
                if held is not None:
                    return f"broker {broker_id} has secrets, which it is about to send"
        return None

    def _held_by(self, broker_id: int) -> str | None:
        registered = self.others.image().brokers.get(broker_id)
        return None if registered is None else self.held.get((broker_id, registered.incarnation_id))

    # -- offering ---------------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        return self._due_ms

    def look_now(self) -> None:
        self._due_ms = 0

    def tick(self) -> None:
        now_ms = self.clock.monotonic_ms()
        if self._due_ms is None or now_ms < self._due_ms:
            return
        self._due_ms = None
        for broker_id in self.replicas:
            if self._held_by(broker_id) is not None or broker_id in self._asking:
                continue
            if self.others.why_silent(broker_id) is not None:
                # It is looked at again when the metadata change.
                continue
            self._asking[broker_id] = None
            self.others.ask(broker_id, WorkKind.SECRETS, partial(self._heard, broker_id))

    def _heard(self, broker_id: int, word: Said | Unanswered) -> None:
        del self._asking[broker_id]
        try:
            if isinstance(word, Unanswered):
                raise InvalidRequest(word.reason)
            content = decoded(word.content)
            public_key, box, trouble = (
                content.get(each) for each in ("public_key", "box", "trouble")
            )
            if isinstance(trouble, str):
                raise InvalidRequest(f"broker {broker_id}: {trouble}")
            if isinstance(public_key, str):
                self._learnt(broker_id, public_key)
                return
            if not isinstance(box, str):
                raise InvalidRequest(f"broker {broker_id} said nothing of its secrets")
            self._without[broker_id] = None
            self.refusals.pop(broker_id, None)
            own = load(self.fs, self.path())
            if own is not None:
                self._give(broker_id, own, bytes.fromhex(box))
            else:
                self._again()
                self.on_shared()
        except (*_REFUSED, ValueError) as error:
            self._refused(broker_id, str(error))

    def _give(self, broker_id: int, own: Secrets, box: bytes) -> None:
        from ledgerstone.erasure.sealing import seal_for

        sealed = seal_for(box, secrets_text(own), context=self._context(broker_id), dice=self.dice)
        self._asking[broker_id] = None
        content = encoded({"sealed": sealed.hex()})
        heard = partial(self._given, broker_id)
        self.others.ask(broker_id, WorkKind.GIVE_SECRETS, heard, content)

    def _given(self, broker_id: int, word: Said | Unanswered) -> None:
        del self._asking[broker_id]
        try:
            if isinstance(word, Unanswered):
                raise InvalidRequest(word.reason)
            public_key = decoded(word.content).get("public_key")
            if not isinstance(public_key, str):
                raise InvalidRequest(f"broker {broker_id} did not say what it has taken")
            _LOG.info("secrets of erasures given broker=%d public_key=%s", broker_id, public_key)
            self._learnt(broker_id, public_key)
        except InvalidRequest as error:
            self._refused(broker_id, str(error))

    def _learnt(self, broker_id: int, public_key: str) -> None:
        registered = self.others.image().brokers.get(broker_id)
        if registered is not None:
            self.held[broker_id, registered.incarnation_id] = public_key
        self.refusals.pop(broker_id, None)
        self._without.pop(broker_id, None)
        self.on_shared()

    def _refused(self, broker_id: int, reason: str) -> None:
        if self.refusals.get(broker_id) != reason:
            _LOG.warning("secrets of erasures not shared broker=%d reason=%s", broker_id, reason)
        self.refusals[broker_id] = reason
        self._again()
        self.on_shared()

    def _again(self) -> None:
        self._due_ms = self.clock.monotonic_ms() + _AGAIN_MS

    def _context(self, receiver: int) -> bytes:
        return f"ledgerstone secrets {self.others.cluster_id()} {receiver}".encode()

    # -- as a receiver ----------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """What is here, and where to seal secrets for."""
        from ledgerstone.erasure.sealing import box_of, public_key_of

        try:
            own = load(self.fs, self.path())
        except _REFUSED as error:
            return {"trouble": str(error)}
        public_key = None if own is None else public_key_of(own.signing_seed).hex()
        return {"public_key": public_key, "box": box_of(self._box()).hex()}

    def take(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Written and synced before it is said. InvalidRequest where others are there."""
        from ledgerstone.erasure.sealing import open_box, public_key_of

        journal = self.others.image().partition(*JOURNAL)
        if journal is None or self.others.node_id not in journal.replicas:
            raise InvalidRequest(f"this broker has no replica of {JOURNAL}")
        try:
            sealed = bytes.fromhex(content["sealed"])
            text = open_box(self._box(), sealed, context=self._context(self.others.node_id))
            given = secrets_from_text(text)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidRequest(f"no secrets that open here: {type(error).__name__}") from None
        public_key, path = public_key_of(given.signing_seed).hex(), self.path()
        try:
            own = load(self.fs, path)
            if own is None:
                store(self.fs, path, given)
                _LOG.info("secrets of erasures taken path=%s public_key=%s", path, public_key)
                self.on_taken()
            elif own != given:
                here = public_key_of(own.signing_seed).hex()
                raise InvalidRequest(
                    f"{path} holds other secrets, with the public key {here}, not {public_key}"
                )
        except _REFUSED as error:
            raise InvalidRequest(str(error)) from None
        return {"public_key": public_key}

    def _box(self) -> bytes:
        """Made for this life, and never written down."""
        if self._box_seed is None:
            self._box_seed = self.dice.random_bytes(32)
        return self._box_seed
