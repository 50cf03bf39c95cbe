"""The secrets of erasures on every broker that may lead the journal. Grade D.

The committed journal names them, and that decides. The broker that leads it offers them to its
other replicas, at the addresses that the metadata name; a leader that lacks them is offered them by
the others. Nobody can ask for them. They travel sealed for a key that the receiver has made for
this life, and lie there in `erasure.keys` before an erasure is taken. Whoever has others, which
nothing was made with, sets them aside. Contract: erasure/README.md, "Several brokers";
docs/security.md.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from ledgerstone.clock import Clock, Dice
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.host_messages import WorkKind, decoded, encoded
from ledgerstone.erasure.secrets_file import (
    Secrets,
    load,
    secrets_from_text,
    secrets_text,
    set_aside,
    store,
)
from ledgerstone.errors import InvalidRequest, KafkaError, StorageError
from ledgerstone.fs import Filesystem
from ledgerstone.metadata.image import PartitionImage
from ledgerstone.server.erasing.journal_topic import JOURNAL
from ledgerstone.server.erasing.others import OtherBrokers, Said, Unanswered

_LOG: Final = logging.getLogger(__name__)
_REFUSED: Final = (OSError, StorageError, KafkaError)
# A broker that did not take them is offered them again.
_AGAIN_MS: Final = 1_000


class KnowsJournal(Protocol):
    """What the journal says of the secrets, as far as it is committed here."""

    @property
    def has_read_journal(self) -> bool:
        """Whether this broker leads it, and knows all that is committed of it."""
        ...

    @property
    def secrets_name(self) -> str | None:
        """The public key of those that it names. Of a follower it is read from its log."""
        ...

    def may_offer(self, public_key: str) -> bool:
        """Whether these are the ones it names, or it has been read and holds nothing at all."""
        ...


@dataclass(slots=True, kw_only=True)
class SecretsSharing:
    clock: Clock
    dice: Dice
    fs: Filesystem
    path: Callable[[], str]
    others: OtherBrokers
    journal: KnowsJournal
    on_taken: Callable[[], None] = lambda: None  # secrets came from another broker
    # Of other replicas of the journal, by broker and incarnation: the public key of what they have,
    # as they said in this epoch of the journal.
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
        journal = self._state
        own_id = self.others.node_id
        if journal is None or own_id not in journal.replicas or self.others.links is None:
            return []
        return [each for each in journal.replicas if each != own_id]

    @property
    def _state(self) -> PartitionImage | None:
        return self.others.image().partition(*JOURNAL)

    @property
    def _epoch(self) -> int | None:
        journal = self._state
        return None if journal is None else journal.leader_epoch

    @property
    def _in_sync(self) -> list[int]:
        """Other brokers that may lead next."""
        journal = self._state
        return [] if journal is None else [each for each in self.replicas if each in journal.isr]

    def forget(self) -> None:
        """The journal has another leader, or the same once more: what was said before is past."""
        self.held.clear()
        self._without.clear()
        self.refusals.clear()

    def why_not_shared(self, public_key: str) -> str | None:
        """Why a broker that is in sync, and so may lead next, has not these secrets yet."""
        for broker_id in self._in_sync:
            found = self._held_by(broker_id)
            if found != public_key:
                has = "has no secrets yet" if found is None else f"still has other secrets, {found}"
                return self.refusals.get(broker_id, f"broker {broker_id} {has}")
        return None

    def may_make(self) -> str | None:
        """Secrets are made where no replica in sync has any; else why not."""
        for broker_id in self._in_sync:
            if self._held_by(broker_id) is not None:
                return f"broker {broker_id} has secrets, which it is about to send"
            if broker_id not in self._without:
                return self.refusals.get(broker_id, f"broker {broker_id} is being asked")
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
        try:
            own = self._own_key()
        except _REFUSED:
            # Whoever asks is told; the disk may read it later.
            self._again()
            return
        for broker_id in self._to_ask(own):
            if broker_id in self._asking or (own and self._held_by(broker_id) == own):
                continue
            if self.others.why_silent(broker_id) is not None:
                # It is looked at again when the metadata change.
                continue
            self._asking[broker_id] = None
            self.others.ask(broker_id, WorkKind.SECRETS, partial(self._heard, broker_id))

    def _to_ask(self, own: str | None) -> list[int]:
        """The leader sees to all others. They see to the leader: it may lack what they have."""
        journal = self._state
        if journal is None or journal.leader == self.others.node_id:
            return self.replicas
        return [each for each in self.replicas if own and each == journal.leader]

    def _own_key(self) -> str | None:
        own = load(self.fs, self.path())
        return None if own is None else _public_key(own)

    def _heard(self, broker_id: int, word: Said | Unanswered) -> None:
        del self._asking[broker_id]
        try:
            if isinstance(word, Unanswered):
                raise InvalidRequest(word.reason)
            content = decoded(word.content)
            public_key, box, trouble, wanted = (
                content.get(each) for each in ("public_key", "box", "trouble", "wanted")
            )
            self._check_epoch(broker_id, content)
            if isinstance(trouble, str):
                raise InvalidRequest(f"broker {broker_id}: {trouble}")
            if not isinstance(box, str):
                raise InvalidRequest(f"broker {broker_id} said nothing of its secrets")
            self._learnt(broker_id, public_key if isinstance(public_key, str) else None)
            own = load(self.fs, self.path())
            if own is None or self._held_by(broker_id) != _public_key(own):
                # Until both have the same.
                self._again()
            if own is not None and self._may_give(_public_key(own), public_key, wanted):
                self._give(broker_id, own, bytes.fromhex(box))
        except (*_REFUSED, ValueError) as error:
            self._refused(broker_id, str(error))

    def _check_epoch(self, broker_id: int, content: Mapping[str, Any]) -> None:
        """Whoever knows an older leader may take that one's secrets yet, whatever it has now."""
        # Releases before this one do not say.
        if content.get("epoch", self._epoch) != self._epoch:
            raise InvalidRequest(f"broker {broker_id} knows another leader of the journal")

    def _may_give(self, own: str, theirs: object, wanted: object) -> bool:
        if theirs == own:
            return False
        journal = self._state
        if journal is not None and journal.leader == self.others.node_id:
            return self.journal.may_offer(own)
        return wanted == own or (wanted is None and theirs is None)

    def _give(self, broker_id: int, own: Secrets, box: bytes) -> None:
        from ledgerstone.erasure.sealing import seal_for

        sealed = seal_for(box, secrets_text(own), context=self._context(broker_id), dice=self.dice)
        self._asking[broker_id] = None
        content = encoded({"sealed": sealed.hex()})
        heard = partial(self._given, broker_id, self._epoch)
        self.others.ask(broker_id, WorkKind.GIVE_SECRETS, heard, content)

    def _given(self, broker_id: int, epoch: int | None, word: Said | Unanswered) -> None:
        del self._asking[broker_id]
        try:
            if isinstance(word, Unanswered):
                raise InvalidRequest(word.reason)
            if epoch != self._epoch:
                # Another leader may have offered others since.
                raise InvalidRequest(f"broker {broker_id} has taken secrets under another leader")
            public_key = decoded(word.content).get("public_key")
            if not isinstance(public_key, str):
                raise InvalidRequest(f"broker {broker_id} did not say what it has taken")
            _LOG.info("secrets of erasures given broker=%d public_key=%s", broker_id, public_key)
            self._learnt(broker_id, public_key)
        except InvalidRequest as error:
            self._refused(broker_id, str(error))

    def _learnt(self, broker_id: int, public_key: str | None) -> None:
        registered = self.others.image().brokers.get(broker_id)
        if registered is None:
            return
        life = broker_id, registered.incarnation_id
        self.refusals.pop(broker_id, None)
        if public_key is None:
            self.held.pop(life, None)
            self._without[broker_id] = None
        else:
            self.held[life] = public_key
            self._without.pop(broker_id, None)

    def _refused(self, broker_id: int, reason: str) -> None:
        if self.refusals.get(broker_id) != reason:
            _LOG.warning("secrets of erasures not shared broker=%d reason=%s", broker_id, reason)
        self.refusals[broker_id] = reason
        self._again()

    def _again(self) -> None:
        self._due_ms = self.clock.monotonic_ms() + _AGAIN_MS

    def _context(self, receiver: int) -> bytes:
        return f"ledgerstone secrets {self.others.cluster_id()} {receiver}".encode()

    # -- as a receiver ----------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """What is here, where to seal secrets for, and which are missing."""
        from ledgerstone.erasure.sealing import box_of

        epoch = self._epoch
        try:
            public_key = self._own_key()
        except _REFUSED as error:
            return {"trouble": str(error), "epoch": epoch}
        wanted = self.journal.secrets_name if self.journal.has_read_journal else None
        box = box_of(self._box()).hex()
        return {"public_key": public_key, "box": box, "epoch": epoch, "wanted": wanted}

    def take(self, content: Mapping[str, Any], *, is_from_leader: bool) -> dict[str, Any]:
        """Written and synced before it is said. InvalidRequest where they are not for here.

        `is_from_leader`: of the journal, in the epoch that is known here."""
        from ledgerstone.erasure.sealing import open_box

        journal = self._state
        if journal is None or self.others.node_id not in journal.replicas:
            raise InvalidRequest(f"this broker has no replica of {JOURNAL}")
        try:
            sealed = bytes.fromhex(content["sealed"])
            text = open_box(self._box(), sealed, context=self._context(self.others.node_id))
            given = secrets_from_text(text)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidRequest(f"no secrets that open here: {type(error).__name__}") from None
        try:
            own = load(self.fs, self.path())
            if own != given:
                self._check_takes(own, _public_key(given), is_from_leader=is_from_leader)
                self._replace(own, given)
        except _REFUSED as error:
            raise InvalidRequest(str(error)) from None
        return {"public_key": _public_key(given)}

    def _check_takes(self, own: Secrets | None, public_key: str, *, is_from_leader: bool) -> None:
        if own is None and is_from_leader:
            return
        named = self.journal.secrets_name
        if named is not None:
            if public_key != named:
                raise InvalidRequest(f"the journal names the secrets {named}, not {public_key}")
        elif not is_from_leader and not (own is None and self.journal.has_read_journal):
            # None are named yet: then the leader chooses, and takes what there is if it has none.
            raise InvalidRequest("only the leader of the journal may offer secrets, and to it")

    def _replace(self, own: Secrets | None, given: Secrets) -> None:
        path = self.path()
        if own is not None:
            aside = set_aside(self.fs, path, own, public_key=_public_key(own))
            _LOG.warning(
                "secrets of erasures set aside, the cluster has others path=%s aside=%s",
                path, aside,
            )  # fmt: skip
        store(self.fs, path, given)
        _LOG.info("secrets of erasures taken path=%s public_key=%s", path, _public_key(given))
        self.look_now()
        self.on_taken()

    def _box(self) -> bytes:
        """Made for this life, and never written down."""
        if self._box_seed is None:
            self._box_seed = self.dice.random_bytes(32)
        return self._box_seed


def _public_key(secrets: Secrets) -> str:
    # Imported where it is needed: a broker that erases nothing does without cryptography.
    from ledgerstone.erasure.sealing import public_key_of

    return public_key_of(secrets.signing_seed).hex()
