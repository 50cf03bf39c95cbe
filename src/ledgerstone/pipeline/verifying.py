"""The plug-in through which a broker asks its pipelines about an erased key. Shell.

An entry point of the group `ledgerstone.erasure_verifiers`, so every broker loads this module, even
without Arrow or Spark installed: these are imported only when a search is needed.
Contract: docs/connect.md, "Erasure downstream".
"""

import os
from typing import Final, Protocol

from ledgerstone.dataclasses import dataclass

VERIFIER_NAME: Final = "pipelines"
# What the plug-in answers for, separated as a PATH is: definitions of pipelines, and work
# directories of stream operators.
DEFINITIONS_VARIABLE: Final = "LEDGERSTONE_PIPELINES"

Word = tuple[str, str, str]  # output, verdict, evidence


class KeyNotGiven(LookupError):
    """A search needs the key, which the broker forgets once the tombstone is written.

    This is not a verdict: the receipt waits for what `ledgerstone pipeline erase` posts."""


class BrokerQuestion(Protocol):
    """A broker's question; `key` is None once the tombstone is written."""

    @property
    def topic(self) -> str: ...

    @property
    def key(self) -> bytes | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineVerifier:
    """Answers for pipelines whose source is the topic of the erasure."""

    definitions: tuple[str, ...]
    name: str = VERIFIER_NAME

    def verify(self, question: BrokerQuestion) -> list[Word]:
        from ledgerstone.pipeline.definition_files import load_definition

        works = [path for path in self.definitions if os.path.isdir(path)]
        pipelines = [load_definition(path) for path in self.definitions if path not in works]
        topics = [each for pipeline in pipelines for each in pipeline.each_topic]
        readers = [each for each in topics if each.source.topic == question.topic]
        states = [work for work in works if question.topic in _topics_of(work)]
        if not readers and not states:
            evidence = f"none of {len(self.definitions)} pipelines here reads the topic"
            return [(VERIFIER_NAME, "clean", evidence)]
        if question.key is None:
            names = ", ".join([*(each.name for each in readers), *states])
            raise KeyNotGiven(f"run `ledgerstone pipeline erase` for {names}")
        from ledgerstone.pipeline.erasing import search
        from ledgerstone.pipeline.streams.state_erasing import search_state

        findings = [found for pipeline in readers for found in search(pipeline, question.key)]
        findings += [search_state(work, question.key) for work in states]
        return [(found.output, found.verdict.value, found.evidence) for found in findings]


def _topics_of(work: str) -> list[str]:
    """Those that the state of a stream operator is made of."""
    from ledgerstone.pipeline.streams.state_store import StateStore

    return list(StateStore(work).read().spec["topics"])


def verifier() -> PipelineVerifier | None:
    """None if no pipeline is named: then no erasure waits for them."""
    named = os.environ.get(DEFINITIONS_VARIABLE, "")
    definitions = tuple(filter(None, named.split(os.pathsep)))
    return PipelineVerifier(definitions=definitions) if definitions else None
