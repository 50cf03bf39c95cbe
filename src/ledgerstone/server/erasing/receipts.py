"""How erasures end: verifiers are asked, receipts, statements and supplements are signed. Grade D.

Each step may be taken twice without harm (erasure/README.md, rule 3). What is signed is written
down before anyone sees it.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from ledgerstone.erasure import changes
from ledgerstone.erasure.erasure import Erasure, Evidence, Stage
from ledgerstone.erasure.outputs import KnownOutput
from ledgerstone.erasure.standing import known_outputs
from ledgerstone.erasure.verifiers import question_about
from ledgerstone.server.effects import AskVerifier
from ledgerstone.server.erasing.work import ErasingWork

_LOG: Final = logging.getLogger(__name__)
# A verifier that failed is not asked again before that.
VERIFIER_REST_MS: Final = 60_000
# Of what a verifier that failed has said, in a receipt.
_MAX_REFUSAL: Final = 200


def ask_verifiers(work: ErasingWork, awaited: Mapping[str, tuple[str, ...]]) -> None:
    """Those that are installed here; the others give their evidence when they have it."""
    if not awaited:
        return
    installed, now_ms = work.installed_verifiers(), work.clock.now_ms()
    for erasure_id, names in awaited.items():
        for name in names:
            rest_until_ms = work.verifier_rests.get((erasure_id, name), 0)
            if name in installed and now_ms >= rest_until_ms:
                # Set when asked as well, so that nobody is asked twice at a time.
                work.verifier_rests[erasure_id, name] = now_ms + VERIFIER_REST_MS
                question = question_about(work.journal.get(erasure_id))
                work.to_ask.append(AskVerifier(name, question))


def issue_receipts(work: ErasingWork, ids: Sequence[str]) -> None:
    if not ids:
        return
    now_ms = work.clock.now_ms()
    made = []
    for erasure_id in ids:
        known = work.watch.remembered(work.journal.get(erasure_id))
        erasure = work.on_this_clock(known)
        outputs = known_outputs(erasure, _refusals(work, erasure))
        receipt = _signed(work, erasure, outputs)
        made.append(changes.receipted(erasure, receipt, now_ms=now_ms, outputs=outputs))
    work.keep(made)


def _refusals(work: ErasingWork, erasure: Erasure) -> dict[str, str]:
    names = erasure.awaited_verifiers
    found = {name: work.refusals.get((erasure.id, name)) for name in names}
    return {name: text[:_MAX_REFUSAL] for name, text in found.items() if text is not None}


def supplemented(
    work: ErasingWork, erasure: Erasure, evidence: Sequence[Evidence]
) -> Erasure | None:
    """Signed, and written down before anybody sees it; a crash in between leaves nothing. None
    where nothing new is said."""
    from ledgerstone.erasure.supplement_issue import new_words, with_supplement

    secrets = work.named_secrets()
    words = new_words(erasure, evidence, salt=secrets.salt)
    if not words:
        return None
    successor = with_supplement(
        work.on_this_clock(erasure),
        words,
        cluster_id=work.log_dirs.metadata.meta.cluster_id or "",
        signing_seed=secrets.signing_seed,
        now_ms=work.clock.now_ms(),
    )
    made = successor.supplements[-1]
    _LOG.info(
        "erasure supplemented id=%s number=%d verdict=%s", erasure.id, made.number, made.verdict
    )
    return successor


def with_statements(work: ErasingWork, erasures: Sequence[Erasure]) -> list[Erasure]:
    """Keys that are nowhere get a signed word too, if they were looked for."""
    told = []
    for erasure in erasures:
        if erasure.stage is Stage.NOT_FOUND and erasure.searched is not None:
            known = work.on_this_clock(erasure)
            told.append(changes.with_statement(known, _signed(work, known)))
        else:
            told.append(erasure)
    return told


def _signed(work: ErasingWork, erasure: Erasure, outputs: Sequence[KnownOutput] = ()) -> str:
    from ledgerstone.erasure.receipt_issue import issue

    receipt = issue(
        erasure,
        cluster_id=work.log_dirs.metadata.meta.cluster_id or "",
        signing_seed=work.named_secrets().signing_seed,
        now_ms=work.clock.now_ms(),
        outputs=outputs,
    )
    return receipt.decode("ascii")
