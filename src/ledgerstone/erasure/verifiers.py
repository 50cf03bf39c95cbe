"""The seam for downstream verifiers: who has copies of a topic says whether the key is in them.

Grade P: the protocol, and how plug-ins are taken in; entry points are handed in. A plug-in of the
group below is asked by the broker; whatever runs elsewhere, as a pipeline does, answers by posting
evidence under a name the request waits for. Contract: README.md, "Downstream verifiers".
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.erasure import Erasure, Evidence, ScanOutcome, Tombstone
from ledgerstone.errors import ConfigError

GROUP: Final = "ledgerstone.erasure_verifiers"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierQuestion:
    erasure_id: str
    topic: str
    key_hmac: bytes
    # None once the tombstone is written, unless an operator gives the key again.
    key: bytes | None = field(repr=False)
    tombstones: tuple[Tombstone, ...]


class Word(NamedTuple):
    """About one output. `evidence` must not hold the key; it is refused where it does."""

    output: str
    outcome: ScanOutcome
    evidence: str


@runtime_checkable
class Verifier(Protocol):
    @property
    def name(self) -> str: ...

    def verify(self, question: VerifierQuestion) -> Sequence[Word]:
        """One word for each output it keeps. Runs outside the broker's loop and may take long."""
        ...


class EntryPoint(Protocol):
    """As `importlib.metadata` has it."""

    @property
    def name(self) -> str: ...

    def load(self) -> object: ...


def load_verifiers(entry_points: Iterable[EntryPoint]) -> dict[str, Verifier]:
    """Each entry point is a class or function without arguments that makes a verifier, or None
    where it has nothing to answer for: then nobody waits for it."""
    verifiers: dict[str, Verifier] = {}
    for point in sorted(entry_points, key=lambda point: point.name):
        factory = point.load()
        verifier = factory() if callable(factory) else factory
        if verifier is None:
            continue
        if not isinstance(verifier, Verifier):
            raise ConfigError(GROUP, point.name, "it has no name or no verify(question)")
        if verifier.name in verifiers:
            raise ConfigError(GROUP, point.name, f"another verifier is named {verifier.name!r}")
        verifiers[verifier.name] = verifier
    return verifiers


def question_about(erasure: Erasure, key: bytes | None = None) -> VerifierQuestion:
    return VerifierQuestion(
        erasure_id=erasure.id,
        topic=erasure.topic,
        key_hmac=erasure.key_print.hmac,
        key=key,
        tombstones=erasure.tombstones,
    )


def evidence_from(name: str, words: Sequence[Word], *, now_ms: int) -> list[Evidence]:
    """A verifier that says nothing has not seen the key nowhere: it does not know."""
    return [
        Evidence(verifier=name, output=output, outcome=outcome, evidence=evidence, given_ms=now_ms)
        for output, outcome, evidence in words
        or [Word(name, ScanOutcome.UNKNOWN, "it named no output")]
    ]
