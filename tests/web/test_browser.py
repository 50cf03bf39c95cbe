"""The page in a real browser, on a broker of its own: every view, live, written to, attacked."""

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from chromium import complaints, why_missing
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.offsets import CommittedOffset, commit_offsets
from ledgerstone.client.partitioner import partition_of
from ledgerstone.client.producer import NewRecord, Producer
from ledgerstone.types import TopicPartition
from ledgerstone.web.wording import visible
from tests.kit.broker import BrokerProcess, wait_until
from tests.web.hostile import STRINGS, TOPIC_NAMES
from tests.web.recording_proxy import RecordingProxy

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(why_missing() is not None, reason=why_missing() or ""),
]

TOPIC = "customers"
HOSTILE = "hostile"
COUNT = 3
KEY = b"zoe@example.org"
LONG_KEY = b"a-key-that-has-no-end-" * 12
LONG = partition_of(LONG_KEY, COUNT)
VIEWS = (
    "/",
    "/topics",
    f"/topics/{TOPIC}",
    f"/topics/{TOPIC}/records",
    f"/topics/{TOPIC}/latest",
    f"/topics/{TOPIC}/anatomy",
    f"/topics/{TOPIC}/keys",
    f"/topics/{TOPIC}/produce",
    "/cleaner",
    "/erasures",
    "/groups",
    "/groups/billing",
    "/cleaner?why=customers-0",
    "/topics?q=nothing",
    # Of the record with the long key, which is the first of its partition.
    f"/topics/{TOPIC}/records/{LONG}/0",
    f"/topics/{TOPIC}/keys?partition={LONG}&offset=0",
    f"/topics/{TOPIC}/anatomy?partition={LONG}&offset=0",
    f"/topics/{TOPIC}/produce?partition={LONG}&offset=0",
    f"/erasures?topic={TOPIC}&partition={LONG}&offset=0",
)
# Run before any script of a page: whatever a page calls or violates is written down.
WATCH = """
window.happened = [];
for (const name of ["alert", "confirm", "prompt", "pwned"]) {
  window[name] = function () { window.happened.push(name); };
}
window.addEventListener("error", (event) => window.happened.push("error: " + event.message));
document.addEventListener("securitypolicyviolation", (event) =>
  window.happened.push("violation: " + event.violatedDirective + " " + event.blockedURI));
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as broker:
        with connected(broker) as client:
            compacted = {"cleanup.policy": "compact"}
            create_topic(client, NewTopic(name=TOPIC, partitions=COUNT, configs=compacted))
            # The long one first, so that its place is known.
            written = [(LONG_KEY, b"v" * 300), (b"alice", b"here"), (b"b", None), (KEY, b"x")]
            # Erased by one test, so looked for by no other.
            written.append((b"bob", b"y"))
            for key, value in written:
                Producer(client).send([NewRecord(TOPIC, key, value)])
            committed = {TopicPartition(TOPIC, 0): CommittedOffset(0)}
            commit_offsets(client, "billing", committed)
        yield broker


@pytest.fixture(scope="module")
def watched(chrome: Chrome, broker: BrokerProcess) -> Iterator[Chrome]:
    """Has the cookie of this broker and no other."""
    watch = chrome.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
    # Cookies know no port, so that of another broker would be there too.
    chrome.delete_all_cookies()
    chrome.get(f"{broker.http}/?token={token_of(broker)}")
    yield chrome
    chrome.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", watch)
    # A page of a stopped broker would try forever to reconnect.
    chrome.get("about:blank")


@pytest.fixture
def browser(watched: Chrome) -> Iterator[Chrome]:
    """Whatever a test did, nothing happened that should not."""
    complaints(watched)
    yield watched
    assert_quiet(watched)


def connected(broker: BrokerProcess) -> Client:
    host, _, port = broker.bootstrap.rpartition(":")
    return Client([Endpoint(host, int(port))])


def token_of(broker: BrokerProcess) -> str:
    ready = json.loads((broker.directory / "ready.json").read_text(encoding="utf-8"))
    return str(ready["token"])


def assert_quiet(browser: Chrome) -> None:
    """Nothing was called, nothing violated the policy, and no script complained."""
    assert browser.execute_script("return window.happened") == []
    assert complaints(browser) == []


def offset_of(key: bytes) -> int:
    """Of the first record of a key, in the order in which the broker got them."""
    number = partition_of(key, COUNT)
    before = [LONG_KEY, b"alice", b"b", KEY]
    return sum(partition_of(each, COUNT) == number for each in before[: before.index(key)])


def text_of(browser: Chrome) -> str:
    return str(browser.execute_script("return document.body.innerText"))


def see(browser: Chrome, what: str) -> None:
    wait_until(lambda: what in text_of(browser), f"{what!r} is on {browser.current_url}")


def test_token_becomes_a_cookie_and_leaves_the_address(
    browser: Chrome, broker: BrokerProcess
) -> None:
    browser.delete_all_cookies()

    browser.get(f"{broker.http}/?token={token_of(broker)}")

    assert browser.current_url == f"{broker.http}/"
    assert "read only" not in text_of(browser)
    cookies = browser.get_cookies()
    assert [(each["httpOnly"], each["sameSite"]) for each in cookies] == [(True, "Strict")]


@pytest.mark.parametrize("path", VIEWS)
def test_view_loads_without_a_complaint(browser: Chrome, broker: BrokerProcess, path: str) -> None:
    browser.get(broker.http + path)

    assert len(browser.find_elements(By.TAG_NAME, "h1")) == 1
    assert browser.title.endswith(" · Ledgerstone")
    loaded = browser.execute_script(
        "return performance.getEntriesByType('resource').map((each) => each.name)"
    )
    assert loaded
    assert all(each.startswith(broker.http) for each in loaded)
    assert_quiet(browser)


@pytest.mark.parametrize("path", VIEWS)
def test_view_fits_a_phone(browser: Chrome, broker: BrokerProcess, path: str) -> None:
    assert_fits_a_phone(browser, broker.http + path)


def test_erasure_fits_a_phone(browser: Chrome, broker: BrokerProcess) -> None:
    erasure = erase(broker, b"bob", reason="a-reason-without-an-end-" * 8)

    for path in (f"/erasures/{erasure}", "/erasures", "/"):
        assert_fits_a_phone(browser, broker.http + path)


def call(broker: BrokerProcess, path: str, **body: object) -> dict[str, Any]:
    asked = Request(f"{broker.http}/api/v1/{path}", json.dumps(body).encode())
    asked.add_header("Content-Type", "application/json")
    with urlopen(asked, timeout=10) as answer:
        content: dict[str, Any] = json.load(answer)
    return content


def erase(broker: BrokerProcess, key: bytes, **more: object) -> str:
    made = call(broker, f"topics/{TOPIC}/erasures", key=b64encode(key).decode(), **more)
    return str(made["erasures"][0]["id"])


def assert_fits_a_phone(browser: Chrome, address: str) -> None:
    """Nothing is wider than the page: it never scrolls sideways, and no fold hides what would."""
    phone = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        browser.get(address)
        wait_until(
            lambda: browser.execute_script("return !document.querySelector('[data-busy]')"),
            f"{address} is whole",
        )
        script = "document.querySelectorAll('details').forEach((each) => { each.open = true; });"
        browser.execute_script(script)
        width = browser.execute_script("return document.scrollingElement.scrollWidth")
        inner = browser.execute_script("return window.innerWidth")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    assert inner == 390
    assert width <= inner, address


def test_list_of_topics_changes_without_being_loaded_again(
    browser: Chrome, broker: BrokerProcess
) -> None:
    browser.get(f"{broker.http}/topics")
    browser.execute_script("window.loaded_once = true")

    with connected(broker) as client:
        create_topic(client, NewTopic(name="made-meanwhile", partitions=1, configs={}))

    see(browser, "made-meanwhile")
    assert browser.execute_script("return window.loaded_once") is True


def test_partitions_grow_while_one_looks(browser: Chrome, broker: BrokerProcess) -> None:
    browser.get(f"{broker.http}/topics/made-here")
    browser.get(f"{broker.http}/topics")
    with connected(broker) as client:
        create_topic(client, NewTopic(name="growing", partitions=1, configs={}))
        browser.get(f"{broker.http}/topics/growing")
        Producer(client).send([NewRecord("growing", b"k", b"v") for _ in range(1234)])

    see(browser, "1\u202f234")
    # The page that is not there was one too.
    complaints(browser)


def test_chart_of_throughput_is_drawn(browser: Chrome, broker: BrokerProcess) -> None:
    browser.get(f"{broker.http}/")

    assert browser.find_elements(By.CSS_SELECTOR, ".chart canvas")
    sample = "return document.querySelector('[sse-swap=samples]').textContent.trim()"
    wait_until(lambda: "[[" in browser.execute_script(sample), "a sample came")


def test_tombstone_is_made_in_the_page_and_reaches_its_key(
    browser: Chrome, broker: BrokerProcess
) -> None:
    number = partition_of(b"alice", COUNT)
    browser.get(f"{broker.http}/topics/{TOPIC}/produce")

    browser.find_element(By.NAME, "key").send_keys("alice")
    browser.find_element(By.CSS_SELECTOR, "input[value=tombstone]").click()
    browser.find_element(By.CSS_SELECTOR, "main form button").click()

    see(browser, f"Tombstone written to partition {number}")
    browser.get(f"{broker.http}/topics/{TOPIC}/latest?partition={number}")
    row = next(
        each for each in browser.find_elements(By.CSS_SELECTOR, "tbody tr") if "alice" in each.text
    )
    assert "deleted" in row.text


def test_topic_is_made_in_the_page(browser: Chrome, broker: BrokerProcess) -> None:
    browser.get(f"{broker.http}/topics")

    browser.find_element(By.CSS_SELECTOR, "details:not(.fold) summary").click()
    browser.find_element(By.NAME, "name").send_keys("made-by-hand")
    Select(browser.find_element(By.NAME, "policy")).select_by_value("compact")
    browser.find_element(By.CSS_SELECTOR, "details form button").click()

    see(browser, "Topic made-by-hand was created.")
    assert "compact" in text_of(browser)


def test_erasure_is_started_in_the_page_and_its_state_comes_by_itself(
    browser: Chrome, broker: BrokerProcess
) -> None:
    number = partition_of(b"b", COUNT)
    offset = offset_of(b"b")
    browser.get(f"{broker.http}/erasures?topic={TOPIC}&partition={number}&offset={offset}")

    browser.find_element(By.NAME, "reason").send_keys("ticket 4711")
    browser.find_element(By.CSS_SELECTOR, "details form button").click()

    see(browser, "The erasure has begun.")
    wait_until(
        lambda: browser.find_elements(By.CSS_SELECTOR, ".shape.reached"),
        "it has gone a step",
    )


def test_cancel_is_offered_only_as_long_as_it_works(browser: Chrome, broker: BrokerProcess) -> None:
    erasure = erase(broker, b"not-yet", after_ms=86_400_000)
    browser.get(f"{broker.http}/erasures/{erasure}")
    form = browser.find_element(By.CSS_SELECTOR, ".cancel")
    assert form.is_displayed()

    call(broker, f"erasures/{erasure}/cancel", by="a clerk")

    # Without the page being loaded again.
    wait_until(lambda: not form.is_displayed(), "the form is gone")


def press(browser: Chrome, selector: str) -> None:
    browser.find_element(By.CSS_SELECTOR, selector).click()


def test_no_request_of_a_browser_says_a_key_outside_of_a_body(
    browser: Chrome, broker: BrokerProcess
) -> None:
    """Whatever is done with a key, neither an address nor a header of a request holds it."""
    key, number = KEY.decode(), partition_of(KEY, COUNT)
    with RecordingProxy(int(broker.http.rpartition(":")[2])) as proxy:
        base = f"{proxy.address}/topics/{TOPIC}"
        browser.get(f"{proxy.address}/?token={token_of(broker)}")
        browser.get(f"{base}/keys")
        browser.find_element(By.NAME, "key").send_keys(key)
        press(browser, "main form button")
        see(browser, "The key is live")
        press(browser, ".drawn p a")
        see(browser, "Where the key of offset")
        browser.get(f"{base}/records")
        browser.find_element(By.NAME, "key").send_keys(key)
        press(browser, "form[method=post] button")
        see(browser, "The key is live")
        browser.get(f"{base}/latest?partition={number}")
        browser.find_element(By.LINK_TEXT, key).click()
        see(browser, "The key is live")
        press(browser, "td a")
        browser.find_element(By.LINK_TEXT, "Write a tombstone for it").click()
        assert browser.find_element(By.NAME, "key").get_attribute("value") == key
        press(browser, "main form button")
        see(browser, "Tombstone written")
        browser.back()
        browser.back()
        browser.find_element(By.LINK_TEXT, "Erase it with a receipt").click()
        assert browser.find_element(By.NAME, "key").get_attribute("value") == key
        press(browser, "details form button")
        see(browser, "The erasure has begun.")
        seen = list(proxy.heads)
        browser.get("about:blank")

    spellings = (key, quote(key), KEY.hex(), b64encode(KEY).decode().rstrip("="))
    posts = [each for each in seen if each.startswith("POST ")]
    assert len(posts) >= 4
    assert any("HX-Request" in each or "hx-request" in each for each in posts)
    for head in seen:
        assert not [each for each in spellings if each.lower() in head.lower()], head
    # The next test looks at a page that was loaded from the broker itself.
    browser.get(f"{broker.http}/?token={token_of(broker)}")


def test_pages_can_be_walked_with_the_keyboard(browser: Chrome, broker: BrokerProcess) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.get(f"{broker.http}/topics")
    names = []
    for _ in range(8):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        names.append(browser.switch_to.active_element.text)

    assert names[:7] == [
        "Skip to the content", "Ledgerstone", "Overview", "Topics", "Cleaner", "Erasures", "Groups",
    ]  # fmt: skip


def test_form_of_a_foreign_page_changes_nothing(
    browser: Chrome, broker: BrokerProcess, tmp_path: Path
) -> None:
    form = f"""<form method=post action="{broker.http}/topics"><input name=name value=forged>
        <button>go</button></form>"""
    foreign = tmp_path / "foreign.html"
    foreign.write_text(form, encoding="utf-8")
    browser.get(foreign.as_uri())

    browser.find_element(By.TAG_NAME, "button").click()

    see(browser, "changes need a token")
    with urlopen(f"{broker.http}/topics", timeout=10) as page:
        assert b"forged" not in page.read()
    # A refused form is an error to the browser, and this page has no policy of ours.
    complaints(browser)
    browser.get(f"{broker.http}/")


def some_by_default(cases: Sequence[str]) -> list[object]:
    """Every fourth case belongs to the default suite, the others to the slow sweeps: each loads a
    page of its own, and tests/web/test_hostile_strings.py looks at what all of them hold."""
    return [
        case if at % 4 == 0 else pytest.param(case, marks=pytest.mark.slow)
        for at, case in enumerate(cases)
    ]


@pytest.fixture(scope="module")
def attacked(broker: BrokerProcess) -> BrokerProcess:
    """Every hostile string as key, value, header and group; and topics called so."""
    with connected(broker) as client:
        create_topic(client, NewTopic(name=HOSTILE, partitions=1, configs={}))
        records = []
        for text in STRINGS:
            data = text.encode("utf-8", "surrogatepass")
            records.append(NewRecord(HOSTILE, data, data, headers=((text, data),)))
        Producer(client).send(records)
        for text in STRINGS:
            commit_offsets(client, text, {TopicPartition(HOSTILE, 0): CommittedOffset(0)})
        for name in TOPIC_NAMES:
            create_topic(client, NewTopic(name=name, partitions=1, configs={}))
    return broker


@pytest.mark.parametrize(
    "path",
    [
        f"/topics/{HOSTILE}/records?offset=0",
        f"/topics/{HOSTILE}/records?offset=40",
        f"/topics/{HOSTILE}/latest",
        "/groups",
        "/topics",
    ],
)
def test_page_full_of_hostile_strings_only_shows_them(
    browser: Chrome, attacked: BrokerProcess, path: str
) -> None:
    browser.get(attacked.http + path)

    see(browser, "pwned")
    made = "return document.querySelectorAll('main script, main iframe, main img, main svg').length"
    assert browser.execute_script(made) == 0
    assert_quiet(browser)


@pytest.mark.parametrize("text", some_by_default(STRINGS))
def test_hostile_group_has_a_page_that_only_shows_its_name(
    browser: Chrome, attacked: BrokerProcess, text: str
) -> None:
    browser.get(f"{attacked.http}/groups/{quote(text, safe='')}")

    shown = browser.find_element(By.TAG_NAME, "h1").get_attribute("textContent")
    assert shown == visible(text)
    assert_quiet(browser)


@pytest.mark.parametrize("name", TOPIC_NAMES)
def test_strange_topic_has_its_pages(browser: Chrome, attacked: BrokerProcess, name: str) -> None:
    for path in ("", "/records", "/latest"):
        browser.get(f"{attacked.http}/topics/{quote(name, safe='')}{path}")

        assert name in str(browser.find_element(By.TAG_NAME, "h1").get_attribute("textContent"))
        assert_quiet(browser)
