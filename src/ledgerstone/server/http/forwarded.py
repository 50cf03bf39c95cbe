"""Calls of the JSON API about erasures, for the broker that leads their journal. Grade D.

Whoever is asked passes the call on over the connections between brokers, and gives back what it is
told. Who calls is found out where the call arrives first, and goes along: the broker that answers
knows which topic an erasure is of, and so decides what they may. A change whose answer got lost is
not sent twice: the caller is told to look.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Final

from ledgerstone.erasure.host_messages import WorkKind, decoded, encoded
from ledgerstone.errors import InvalidRequest
from ledgerstone.metadata.image import NO_LEADER
from ledgerstone.security.principal import ANONYMOUS, Principal
from ledgerstone.server.broker import Broker
from ledgerstone.server.erasing.journal_topic import JOURNAL
from ledgerstone.server.erasing.others import Said, Unanswered
from ledgerstone.server.erasing.work import LedElsewhere, NotYet
from ledgerstone.server.http.asker import ANYBODY, Asker
from ledgerstone.server.http.json_body import Refused, Retried
from ledgerstone.server.http.server import HttpRequest, Page

Calls = Mapping[str, Callable[[], object]]
_LOST: Final = "look at the list of erasures before you ask again"


def routed(broker: Broker, request: HttpRequest, here: Calls, *, is_routed: bool) -> Calls:
    """Calls that are answered by the broker that leads the journal, wherever it is."""
    if broker.erasing.others.links is None:
        return here
    return {
        method: lambda call=call: Retried(_Routed(broker, request, call, is_routed).attempt)  # type: ignore[misc]
        for method, call in here.items()
    }


def asker_json(asker: Asker) -> dict[str, object]:
    principal = asker.principal
    assert principal is not None
    return {
        "kind": principal.kind,
        "name": principal.name,
        "host": asker.host,
        "may_everything": asker.rights is None,
    }


def asker_from(broker: Broker, told: object) -> Asker:
    """Who asked another broker, with the rights that they have here. Nobody named is nobody known,
    which is enough where there are no ACLs."""
    if not isinstance(told, dict):
        if broker.authorizer is None:
            return ANYBODY
        return Asker(rights=broker.authorizer.rights_of(ANONYMOUS, ""))
    kind, name, host = (told.get(each) for each in ("kind", "name", "host"))
    if type(kind) is not str or type(name) is not str or type(host) is not str:
        raise InvalidRequest("a call whose asker is none")
    principal = Principal(kind, name)
    if broker.authorizer is None or told.get("may_everything") is True:
        return Asker(principal=principal, host=host)
    rights = broker.authorizer.rights_of(principal, host)
    return Asker(principal=principal, host=host, rights=rights)


class _Routed:
    def __init__(
        self, broker: Broker, request: HttpRequest, here: Callable[[], object], is_routed: bool
    ) -> None:
        self._broker = broker
        self._request = request
        self._here = here
        self._is_routed = is_routed
        self._begun: object = None
        self._is_sent = False
        self._word: Said | Unanswered | None = None

    def attempt(self) -> object:
        broker = self._broker
        journal = broker.image.partition(*JOURNAL)
        if self._is_sent:
            return self._answered()
        if self._begun is not None or journal is None or journal.leader == broker.config.node_id:
            return self._locally()
        if journal.leader == NO_LEADER:
            raise NotYet("the journal of erasures has no leader")
        if not self._is_routed:
            raise Refused(503, f"broker {journal.leader} leads the journal by now: ask again")
        self._send(journal.leader)
        return self._answered()

    def _locally(self) -> object:
        if self._begun is None:
            self._broker.erasing.check_is_loaded()
            begun = self._here()
            if not isinstance(begun, Retried):
                return begun
            self._begun = begun
        assert isinstance(self._begun, Retried)
        try:
            return self._begun.attempt()
        except LedElsewhere:
            self._begun = None
            raise

    def _send(self, leader: int) -> None:
        request = self._request
        content: dict[str, object] = {
            "method": request.method,
            "path": request.path,
            "query": dict(request.query),
            "body": b64encode(request.body).decode("ascii"),
        }
        if request.asker.is_known:
            content["asker"] = asker_json(request.asker)
        self._is_sent, self._word = True, None
        self._broker.erasing.others.ask(leader, WorkKind.API, self._heard, encoded(content))

    def _heard(self, word: Said | Unanswered) -> None:
        self._word = word

    def _answered(self) -> Page:
        word = self._word
        if word is None:
            raise NotYet("the broker that leads the journal has not answered")
        if isinstance(word, Unanswered):
            if word.may_be_done and self._request.method == "POST":
                raise Refused(503, f"{word.reason}; {_LOST}")
            # Nothing was done: the next attempt asks whoever leads by then.
            self._is_sent, self._word = False, None
            raise NotYet(word.reason)
        return page_of(word)


def page_of(word: Said) -> Page:
    try:
        content = decoded(word.content)
        status, body, kind = content["status"], content["body"], content["type"]
    except (InvalidRequest, KeyError) as error:
        raise Refused(503, f"an answer that is none: {error}") from None
    if type(status) is not int or type(body) is not str or type(kind) is not str:
        raise Refused(503, "an answer that is none")
    return Page(status, body, kind)
