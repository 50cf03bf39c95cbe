"""Every view, on a broker that has nothing and on one that has something of everything."""

import re

import pytest

from ledgerstone.erasure.erasure import Stage
from ledgerstone.erasure.outputs import Status
from ledgerstone.server.http.server import BadRequest, HttpRequest, Page, Stream
from ledgerstone.web.site import HEADERS
from ledgerstone.web.views import FRAGMENTS, ROUTES
from tests.kit.in_process import InProcess
from tests.unit.server.asks import TOPIC, commit_offset, create_topic, join
from tests.unit.server.erasing_kit import ErasingMachine
from tests.web.kit import COMPACTED, PLAIN, Parsed, Visitor, append, full_machine, header

NAMES = {"topic": COMPACTED, "partition": "0", "offset": "1", "group": "billing"}


def paths(machine: InProcess) -> list[str]:
    """Of every GET route, with the names of things that are there."""
    erasure = next((each.id for each in machine.broker.erasing.journal.book), "ER-0")
    found = []
    for route in ROUTES:
        is_paper = "receipt" in route.pattern or "supplements" in route.pattern
        if route.method == "GET" and not is_paper:
            found.append(route.pattern.format(**NAMES, erasure=erasure))
    return found


ALL_PATHS = paths(full_machine())


@pytest.mark.parametrize("path", ALL_PATHS)
def test_view_is_a_whole_page_that_loads_nothing_from_elsewhere(
    visitor: Visitor, path: str
) -> None:
    text = visitor.shown(path)

    page = Parsed(text)
    assert not page.unbalanced
    assert not page.open
    assert page.title(text).endswith(" · Ledgerstone")
    assert len(page.all("h1")) == 1
    addresses = [
        str(attributes[name])
        for tag, attributes in page.elements
        for name in ("href", "src", "action", "sse-connect", "hx-get", "hx-post")
        if name in attributes
    ]
    assert all(each.startswith(("/", "#")) and not each.startswith("//") for each in addresses)


@pytest.mark.parametrize("path", ALL_PATHS)
def test_view_has_no_inline_script_style_or_handler(visitor: Visitor, path: str) -> None:
    page = Parsed(visitor.shown(path))

    for tag, attributes in page.elements:
        assert tag != "style"
        assert tag != "script" or str(attributes["src"]).startswith("/assets/")
        assert not [name for name in attributes if name == "style" or name.startswith("on")]


@pytest.mark.parametrize("path", ALL_PATHS)
def test_every_page_says_what_a_browser_may_load(visitor: Visitor, path: str) -> None:
    page = visitor.get(path)

    for name, value in HEADERS:
        assert header(page, name) == value
    policy = header(page, "Content-Security-Policy") or ""
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("path", ALL_PATHS)
def test_every_control_of_a_form_has_a_label(visitor: Visitor, path: str) -> None:
    text = visitor.shown(path)

    for tag in ("input", "select", "textarea"):
        for part in text.split(f"<{tag} ")[1:]:
            if 'type="hidden"' not in part.partition(">")[0]:
                before = text.partition(f"<{tag} {part[:60]}")[0]
                assert before.rfind("<label") > before.rfind("</label>"), part[:80]


@pytest.mark.parametrize("path", ["/", "/topics", "/erasures", "/groups", "/topics?q=nothing"])
def test_view_of_an_empty_broker_is_a_page_too(empty: InProcess, path: str) -> None:
    text = Visitor(empty).let_in().shown(path)

    assert len(Parsed(text).all("h1")) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/topics/nothing",
        "/topics/nothing/records",
        "/topics/nothing/latest",
        "/topics/nothing/produce",
        f"/topics/{COMPACTED}/records?partition=9",
        f"/topics/{COMPACTED}/records/0/999999",
        f"/topics/{COMPACTED}/records/7/0",
        "/erasures/ER-nothing",
        "/erasures/ER-nothing/receipt.json",
        "/groups/nothing",
    ],
)
def test_what_is_not_there_is_said_on_a_page(visitor: Visitor, path: str) -> None:
    page = visitor.get(path)

    assert page.status == 404
    assert isinstance(page.body, str)
    assert "<h1>" in page.body


@pytest.mark.parametrize(
    "query", ["offset=-1", "offset=x", "offset=99999999999999999999", "partition=x", "time=soon"]
)
def test_what_is_no_number_or_time_is_refused(visitor: Visitor, query: str) -> None:
    assert visitor.get(f"/topics/{COMPACTED}/records?{query}").status == 400


def test_unknown_path_is_left_to_others(visitor: Visitor) -> None:
    assert visitor.site.answer(HttpRequest("GET", "/nothing", {}, visitor.headers)) is None


@pytest.mark.parametrize("name", ["overview", "samples", "topics", "erasures", "groups"])
def test_fragment_holds_no_form_and_nothing_of_who_looks(visitor: Visitor, name: str) -> None:
    visitor.shown("/")

    text = visitor.site._fragment(name)

    assert "<form" not in text
    assert visitor.access.csrf not in text


def test_page_and_its_fragment_show_the_same(visitor: Visitor) -> None:
    page = visitor.shown("/topics")

    assert visitor.site._fragment("topics").strip() in page


def test_events_are_of_known_fragments_only(visitor: Visitor) -> None:
    request = HttpRequest("GET", "/events", {"show": "topics,groups"}, visitor.headers)

    assert isinstance(visitor.site.answer(request), Stream)
    for show in ("", ",", "secrets", "topics,secrets", "topics\nx"):
        with pytest.raises(BadRequest):
            visitor.site.answer(request._replace(query={"show": show}))
    assert all(isinstance(name, str) and ":" not in name for name in FRAGMENTS)


def test_fragment_of_what_is_gone_says_so(visitor: Visitor) -> None:
    visitor.shown("/")

    assert "There is no topic nothing." in visitor.site._fragment("partitions:nothing")


# -- what they show -------------------------------------------------------------------------------


def test_overview_says_why_the_broker_is_not_ready(
    visitor: Visitor, machine: ErasingMachine
) -> None:
    assert "Not ready" not in visitor.shown("/")

    next(iter(machine.broker.partitions)).log.fail("the disk is gone")

    text = visitor.shown("/")
    assert "Not ready" in text
    assert "the disk is gone" in text


def test_topics_are_found_by_a_part_of_their_name(visitor: Visitor) -> None:
    text = Parsed(visitor.shown("/topics?q=CUST")).text

    assert COMPACTED in text
    assert PLAIN not in text


def test_topic_shows_each_setting_with_its_source_and_meaning(visitor: Visitor) -> None:
    text = " ".join(Parsed(visitor.shown(f"/topics/{COMPACTED}")).text.split())

    assert "cleanup.policy compact this topic What happens to old segments" in text
    assert "segment.bytes 1073741824 default Size at which" in text


def test_group_shows_lag_and_members(visitor: Visitor, machine: ErasingMachine) -> None:
    client = machine.connect()
    client.send(join("readers"), 3)

    text = " ".join(Parsed(visitor.shown("/groups")).text.split())

    assert "billing" in text
    group = " ".join(Parsed(visitor.shown("/groups/billing")).text.split())
    behind = machine.end(0, COMPACTED) - 2
    assert f"{behind}records behind" in group
    assert "test" in Parsed(visitor.shown("/groups/readers")).text


def test_group_that_missed_deletes_is_told_and_may_say_it_was_dealt_with(
    machine: ErasingMachine, visitor: Visitor
) -> None:
    for _ in range(3):
        machine.call("POST", f"topics/{COMPACTED}/compact")
        machine.settle()
        machine.jump(hours=30)
        machine.settle()

    told = visitor.shown("/groups/billing")
    answer = visitor.post("/groups/billing/missed", {"topic": COMPACTED})

    assert "Tombstones went that this group had not read" in told
    assert answer.status == 303
    assert "Tombstones went" not in visitor.shown("/groups/billing")


def test_receipt_with_open_outputs_and_its_supplements_are_shown(
    visitor: Visitor, machine: ErasingMachine
) -> None:
    append(machine, COMPACTED, b"dave", b"1")
    assert commit_offset(machine.connect(), "nightly<b>", 1, COMPACTED) == 0
    erasure_id = machine.erase(b"dave", COMPACTED)
    erasure = machine.run(erasure_id)
    open_ones = Parsed(visitor.shown("/erasures")).text
    one = Parsed(visitor.shown(f"/erasures/{erasure_id}")).text
    body = {"verifier": "lake", "output": "t", "verdict": "clean", "evidence": "0 rows"}
    for each in (each for each in erasure.outputs if each.status is Status.NOT_VERIFIED):
        machine.call("POST", f"erasures/{erasure_id}/evidence", group=each.name, **body)

    later = Parsed(visitor.shown("/erasures")).text
    paper = visitor.get(f"/erasures/{erasure_id}/supplements/1")
    text = visitor.get(f"/erasures/{erasure_id}/receipt.txt")

    assert "not verified" in open_ones
    assert "group nightly<b>: NOT VERIFIED, it had committed offset 1" in one
    assert "not verified" not in later
    assert paper.body == machine.erasure(erasure_id).supplements[0].document
    assert "Supplement 1" in text.body
    assert visitor.get(f"/erasures/{erasure_id}/supplements/99").status == 404


def test_erasure_shows_its_course_and_gives_its_receipt(
    machine: ErasingMachine, visitor: Visitor
) -> None:
    append(machine, COMPACTED, b"dave", b"secret")
    erasure_id = machine.erase(b"dave", COMPACTED)
    early = visitor.get(f"/erasures/{erasure_id}/receipt.json")

    erasure = machine.run(erasure_id)

    assert erasure.stage is Stage.RECEIPTED
    assert early.status == 409
    assert "receipted" in Parsed(visitor.shown(f"/erasures/{erasure_id}")).text
    signed = visitor.get(f"/erasures/{erasure_id}/receipt.json")
    assert signed.body == erasure.receipt
    assert f'filename="{erasure_id}.json"' in (header(signed, "Content-Disposition") or "")
    written = visitor.get(f"/erasures/{erasure_id}/receipt.txt")
    assert isinstance(written.body, str)
    assert erasure_id in written.body
    assert "secret" not in written.body


def test_more_topics_than_fit_are_counted(
    empty: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledgerstone.web.topics.SHOWN", 3)
    client = empty.connect()
    for number in range(5):
        create_topic(client, f"{TOPIC}-{number}")

    text = Parsed(Visitor(empty).shown("/topics")).text

    assert "2 more; search by name." in text


def test_assets_come_packed_under_their_hash_and_are_kept(visitor: Visitor) -> None:
    links = Parsed(visitor.shown("/")).all("link")
    style = next(str(each["href"]) for each in links if "app." in str(each["href"]))

    page = visitor.get(style, **{"accept-encoding": "gzip, br"})
    again = visitor.get(style, **{"if-none-match": header(page, "ETag") or ""})
    plain = visitor.get(style)

    assert header(page, "Content-Encoding") == "gzip"
    assert "immutable" in (header(page, "Cache-Control") or "")
    assert again.status == 304
    assert header(plain, "Content-Encoding") is None
    assert len(plain.body) > len(page.body)
    assert visitor.get("/assets/app.000000000000.css").status == 404


def test_all_assets_together_are_small(visitor: Visitor) -> None:
    visitor.shown("/")

    assert visitor.site._renderer is not None
    assert visitor.site._renderer.assets.packed_bytes <= 60_000


def test_page_of_a_broker_costs_nothing_before_it_is_asked_for(empty: InProcess) -> None:
    visitor = Visitor(empty, has_renderer=False)
    renderers = [visitor.site._renderer]
    routes = [len(visitor.site._routes)]

    visitor.shown("/")

    assert renderers == [None]
    assert routes == [0]
    assert visitor.site._renderer is not None


def test_head_is_answered_as_get(visitor: Visitor) -> None:
    page = visitor.send(HttpRequest("HEAD", "/topics", {}, visitor.headers))

    assert isinstance(page, Page)
    assert page.status == 200


def test_first_request_loads_what_the_others_find_loaded(empty: InProcess) -> None:
    stream = HttpRequest("GET", "/events", {"show": "topics"}, Visitor(empty).headers)

    first = {
        path: Visitor(empty, has_renderer=False).send(request).status
        for path, request in {
            "page": stream._replace(path="/topics"),
            "nothing": stream._replace(path="/nothing"),
            "events": stream,
            "asset": stream._replace(path="/assets/x.css"),
        }.items()
    }

    assert first == {"page": 200, "nothing": 404, "events": 503, "asset": 404}


def test_internal_topics_are_behind_a_fold(visitor: Visitor) -> None:
    for path in ("/topics", "/cleaner"):
        before, _, folded = visitor.shown(path).partition('<details class="fold">')

        assert "__consumer_offsets" not in before, path
        assert "__consumer_offsets" in folded, path
        assert "__consumer_offsets" not in folded.partition("</details>")[2], path


def test_search_that_finds_internal_topics_alone_opens_the_fold(visitor: Visitor) -> None:
    assert '<details class="fold" open>' in visitor.shown("/topics?q=__consumer")
    assert '<details class="fold" open>' not in visitor.shown(f"/topics?q={COMPACTED}")


@pytest.mark.parametrize("path", ALL_PATHS)
def test_times_are_written_in_one_way(visitor: Visitor, path: str) -> None:
    """ISO 8601 in UTC, to the millisecond; a date in any other way is one too many."""
    text = Parsed(visitor.shown(path)).text

    dates = re.findall(r"\d{4}-\d\d-\d\d\S*(?: \d\d:\S*)?", text)
    assert all(re.match(r"[\d-]{10}T[\d:]{8}\.\d{3}Z", each) for each in dates), dates
    assert not re.search(r"\d{1,2}/\d{1,2}/\d{2}", text)
