"""Which erasures a snapshot has neither read nor heard of, from what a broker tells."""

from types import SimpleNamespace
from typing import Any

import pytest

from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.http_api import ApiAddress
from ledgerstone.client.security import ClientSecurity
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.state import erasures, jobs
from ledgerstone.pipeline.state.erasures import ErasureTombstone, erasures_of, untold_to
from ledgerstone.records.builder import build_batch

# Connects when it is first used, which nobody does here.
CLIENT = Client([Endpoint("127.0.0.1", 1)])
TOLD = [
    {"id": "ER-1", "tombstones": [{"partition": 0, "offset": 5}, {"partition": 1, "offset": 9}]},
    {"id": "ER-2", "tombstones": [{"partition": 0, "offset": 20, "written_ms": 1}]},
    {"id": "ER-3", "tombstones": []},
]


def told_by(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> list[ErasureTombstone]:
    left = list(answers)
    monkeypatch.setattr(
        erasures,
        "http_addresses",
        lambda client: dict.fromkeys(range(len(answers)), ApiAddress("h", 1)),
    )
    monkeypatch.setattr(erasures, "get_json", lambda address, path, security: left.pop(0))
    return erasures_of(CLIENT, "t")


def test_only_what_lies_behind_the_snapshot_and_was_not_told_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = told_by(monkeypatch, {"erasures": TOLD, "total": 3}, None, {"erasures": TOLD[:1]})

    assert untold_to(known, (), 0, 5) == (("ER-1", 0, 5), ("ER-2", 0, 20))
    assert untold_to(known, (), 0, 6) == (("ER-2", 0, 20),)
    assert untold_to(known, ("ER-2",), 0, 6) == ()
    assert untold_to(known, (), 1, 0) == (("ER-1", 1, 9),)


def test_every_page_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    pages = [
        {"erasures": TOLD[:1], "total": 3, "next": "ER-1"},
        {"erasures": TOLD[1:], "total": 3, "next": None},
    ]

    def get_json(address: ApiAddress, path: str, security: ClientSecurity) -> Any:
        asked.append(path)
        return pages[len(asked) - 1]

    monkeypatch.setattr(erasures, "http_addresses", lambda client: {1: ApiAddress("h", 1)})
    monkeypatch.setattr(erasures, "get_json", get_json)
    known = erasures_of(CLIENT, "t")

    assert [each.erasure_id for each in known] == ["ER-1", "ER-1", "ER-2"]
    assert asked == ["/api/v1/erasures?topic=t", "/api/v1/erasures?topic=t&after=ER-1"]


def test_more_erasures_than_a_broker_tells_may_be_anywhere_behind_the_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = told_by(monkeypatch, {"erasures": TOLD, "total": 4})

    assert untold_to(known, ("ER-1", "ER-2"), 7, 100) == (("", 7, 100),)


@pytest.mark.parametrize(
    "answers",
    [(None,), (None, None), ({"erasures": TOLD[:1], "total": 3, "next": "ER-1"}, None)],
    ids=["one broker is silent", "two are", "the second page does not come"],
)
def test_erasures_that_nobody_tells_may_be_anywhere_behind_the_snapshot(
    monkeypatch: pytest.MonkeyPatch, answers: tuple[Any, ...]
) -> None:
    left = list(answers)
    count = 2 if answers == (None, None) else 1
    monkeypatch.setattr(
        erasures,
        "http_addresses",
        lambda client: dict.fromkeys(range(count), ApiAddress("h", 1)),
    )
    monkeypatch.setattr(erasures, "get_json", lambda address, path, security: left.pop(0))

    known = erasures_of(CLIENT, "t")

    assert untold_to(known, (), 7, 100) == (("", 7, 100),)


def test_a_cluster_without_an_api_has_no_erasures(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told_by(monkeypatch) == []


@pytest.mark.parametrize(
    "answer",
    [
        {"erasures": [{"id": "ER-1"}]},
        {"erasures": 5},
        {"erasures": [{"id": "ER-1", "tombstones": [{"partition": "x", "offset": 1}]}]},
        {"erasures": [None]},
    ],
)
def test_answer_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    with pytest.raises(PipelineError, match="invalid erasures of t"):
        told_by(monkeypatch, answer)


def test_tombstone_that_names_no_erasure_is_none_of_an_erasure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was taken for the one that stands for all that nobody told of."""
    named = [(jobs.ERASURE_HEADER, each) for each in (b"ER-1", None, b"")]
    batch = build_batch([(1, b"k%d" % n, None, (each,)) for n, each in enumerate(named)])
    job = jobs.PartitionJob(
        bootstrap="", topic="t", partition=0, isolation="read_uncommitted", older=None,
        start_offset=0, end_offset=0, log_start_offset=0, log_end_offset=3, out="",
    )  # fmt: skip
    fetched = SimpleNamespace(records=batch, aborted=())
    monkeypatch.setattr(jobs, "_read", lambda client, job, start, end: [fetched])

    assert jobs._told_erasures(CLIENT, job) == [(b"k0", 0, b"ER-1")]
