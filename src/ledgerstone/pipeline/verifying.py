"""The plug-in through which a broker asks its pipelines about an erased key. Shell.

An entry point of the group `ledgerstone.erasure_verifiers`, so every broker loads this module, even
without Arrow or Spark installed: these are imported only when a search is needed.
Contract: docs/connect.md, "Erasure downstream".
"""

import os
from typing import Final, Protocol

from ledgerstone.dataclasses import dataclass

VERIFIER_NAME: Final = "pipelines"
# Definitions, separated as a PATH is, of the pipelines that the plug-in answers for.
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

        pipelines = [load_definition(path) for path in self.definitions]
        readers = [each for each in pipelines if question.topic in each.source.names]
        if not readers:
            evidence = f"none of {len(pipelines)} pipelines here reads the topic"
            return [(VERIFIER_NAME, "clean", evidence)]
        if question.key is None:
            names = ", ".join(each.name for each in readers)
            raise KeyNotGiven(f"run `ledgerstone pipeline erase` for {names}")
        from ledgerstone.pipeline.erasing import search

        return [
            (found.output, found.verdict.value, found.evidence)
            for pipeline in readers
            for found in search(pipeline, question.key)
        ]


def verifier() -> PipelineVerifier | None:
    """None if no pipeline is named: then no erasure waits for them."""
    named = os.environ.get(DEFINITIONS_VARIABLE, "")
    definitions = tuple(filter(None, named.split(os.pathsep)))
    return PipelineVerifier(definitions=definitions) if definitions else None
