"""The erasures of a topic, as its brokers report them: where each put its tombstones. Shell.

A restore needs them in addition to the log: a tombstone may be gone, and the key written again.
Brokers other than Ledgerstone have no erasures.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from ledgerstone.client.blocking import Client
from ledgerstone.client.http_api import ApiAddress
from ledgerstone.client.security import ClientSecurity
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.spark.tombstones import get_json, http_addresses

# Erasures that are more than a broker tells: in any partition, and taken out of nothing.
UNTOLD: Final = ""
ANY_PARTITION: Final = -1
# More erasures than a broker keeps: reading on would never end.
_MOST_PAGES: Final = 10_000


class ErasureTombstone(NamedTuple):
    erasure_id: str
    partition: int
    offset: int


def erasures_of(client: Client, topic: str) -> list[ErasureTombstone]:
    found: dict[ErasureTombstone, None] = {}
    security = client.session.config.security
    addresses = http_addresses(client).values()
    answers = [_all_pages(address, security, topic) for address in addresses]
    for answer in answers:
        if answer is not None:
            found |= dict.fromkeys(_tombstones(answer, topic))
    if answers and all(each is None for each in answers):
        # There may be any, and a key that was erased must not come back because nobody said so.
        found[ErasureTombstone(UNTOLD, ANY_PARTITION, 0)] = None
    return sorted(found)


def _all_pages(
    address: ApiAddress, security: ClientSecurity, topic: str
) -> Mapping[str, Any] | None:
    """All pages of a broker's answer as one; None if one of them did not come. An older broker has
    only one page."""
    first = path = f"/api/v1/erasures?topic={quote(topic, safe='')}"
    pages: list[Mapping[str, Any]] = []
    while len(pages) < _MOST_PAGES:
        page = get_json(address, path, security)
        if page is None:
            return None
        pages.append(page)
        last = page.get("next")
        if not isinstance(last, str):
            break
        path = f"{first}&after={quote(last, safe='')}"
    if len(pages) == 1:
        return pages[0]
    told = [each for page in pages for each in page.get("erasures", [])]
    return {**pages[-1], "erasures": told}


def untold_to(
    known: Iterable[ErasureTombstone], erasures: Collection[str], partition: int, start_offset: int
) -> tuple[ErasureTombstone, ...]:
    """Those that a snapshot up to `start_offset`, told of `erasures`, has neither read nor heard
    of; each at the first offset where it may be."""
    return tuple(
        each._replace(partition=partition, offset=max(each.offset, start_offset))
        for each in known
        if each.erasure_id not in erasures
        and each.partition in (partition, ANY_PARTITION)
        and (each.offset >= start_offset or each.partition == ANY_PARTITION)
    )


def _tombstones(answer: Mapping[str, Any], topic: str) -> list[ErasureTombstone]:
    try:
        told = answer.get("erasures", [])
        found = [
            ErasureTombstone(str(each["id"]), int(tomb["partition"]), int(tomb["offset"]))
            for each in told
            for tomb in each["tombstones"]
        ]
        if int(answer.get("total", 0)) > len(told):
            found.append(ErasureTombstone(UNTOLD, ANY_PARTITION, 0))
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise PipelineError(f"a broker reported invalid erasures of {topic}: {error}") from error
    return found
