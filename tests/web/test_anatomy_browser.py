"""The pages about logs in a real browser: numbers under the pointer, and strips that live."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from chromium import complaints, why_missing
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.producer import NewRecord, Placed, Producer
from tests.kit.broker import BrokerProcess, wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(why_missing() is not None, reason=why_missing() or ""),
]

TOPIC = "accounts"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as broker:
        compacted = {"cleanup.policy": "compact", "segment.bytes": "20000"}
        with connected(broker) as client:
            create_topic(client, NewTopic(name=TOPIC, partitions=1, configs=compacted))
            create_topic(client, NewTopic(name="first", partitions=1, configs=compacted))
        write(broker, 300)
        # A partition rests ten times as long as its analysis took, and the first of all has to
        # start a process. This one may rest as long as it likes.
        wait_until(lambda: "data-busy" not in broker.get("/topics/first/anatomy"), "it is counted")
        yield broker


@pytest.fixture(scope="module")
def browser(broker: BrokerProcess, chrome: Chrome) -> Iterator[Chrome]:
    """Has the cookie of this broker."""
    ready = json.loads((Path(broker.directory) / "ready.json").read_text(encoding="utf-8"))
    chrome.get(f"{broker.http}/?token={ready['token']}")
    yield chrome
    # A page of a stopped broker would try forever to reconnect.
    chrome.get("about:blank")


@pytest.fixture(autouse=True)
def quiet(browser: Chrome) -> Iterator[None]:
    """Whatever a test did, no script complained and nothing violated the policy."""
    complaints(browser)
    yield
    assert complaints(browser) == []


def connected(broker: BrokerProcess) -> Client:
    host, _, port = broker.bootstrap.rpartition(":")
    return Client([Endpoint(host, int(port))])


def write(broker: BrokerProcess, count: int) -> None:
    """In batches that are smaller than a segment."""
    with connected(broker) as client:
        producer = Producer(client)
        for start in range(0, count, 50):
            keys = range(start, min(start + 50, count))
            records = [NewRecord(TOPIC, b"%d" % (n % 40), b"v" * 100) for n in keys]
            assert all(isinstance(each, Placed) for each in producer.send(records))


def text_of(browser: Chrome, selector: str = "body") -> str:
    return str(browser.execute_script(f"return document.querySelector('{selector}').textContent"))


def see(browser: Chrome, what: str, selector: str = "body") -> None:
    wait_until(lambda: what in text_of(browser, selector), f"{what!r} is in {selector}")


def open_counted(browser: Chrome, broker: BrokerProcess) -> None:
    browser.get(f"{broker.http}/topics/{TOPIC}/anatomy")
    wait_until(
        lambda: browser.execute_script("return document.querySelector('[data-busy]') === null"),
        "everything is counted",
    )


def test_strip_is_counted_and_drawn_without_loading_the_page_again(
    browser: Chrome, broker: BrokerProcess
) -> None:
    open_counted(browser, broker)

    kinds = browser.execute_script(
        "return [...document.querySelectorAll('.boxes rect')].map((each) => each.classList[0])"
    )
    assert "live" in kinds
    assert "superseded" in kinds
    see(browser, "live,", ".words")


def test_focus_shows_the_numbers_of_a_segment(browser: Chrome, broker: BrokerProcess) -> None:
    open_counted(browser, broker)

    browser.execute_script("document.querySelector('.box').focus()")

    label = browser.find_element(By.CSS_SELECTOR, ".box").get_attribute("aria-label")
    assert text_of(browser, ".readout") == label


def test_strip_grows_while_somebody_writes_and_keeps_what_is_shown(
    browser: Chrome, broker: BrokerProcess
) -> None:
    open_counted(browser, broker)
    browser.execute_script("document.querySelector('.box').focus()")
    before = text_of(browser, ".marks text:last-of-type")

    write(broker, 50)

    wait_until(
        lambda: text_of(browser, ".marks text:last-of-type") != before, "the end of the log moved"
    )
    assert text_of(browser, ".readout").startswith("segment 0 to ")
    focused = browser.execute_script("return document.activeElement.dataset.base")
    assert focused == "0"


def test_compact_now_is_seen_in_the_strip(browser: Chrome, broker: BrokerProcess) -> None:
    open_counted(browser, broker)

    browser.find_element(By.CSS_SELECTOR, ".above button").click()

    see(browser, "requested")
    see(browser, "clean", ".bands")


def test_key_history_comes_by_itself(browser: Chrome, broker: BrokerProcess) -> None:
    browser.get(f"{broker.http}/topics/{TOPIC}/keys")
    browser.find_element(By.NAME, "key").send_keys("7")
    browser.find_element(By.CSS_SELECTOR, "main form button").click()

    see(browser, "The key is live", "#history")


def test_cleaner_has_its_chart_and_follows_what_happens(
    browser: Chrome, broker: BrokerProcess
) -> None:
    browser.get(f"{broker.http}/cleaner")

    wait_until(
        lambda: len(browser.find_elements(By.CSS_SELECTOR, ".chart canvas")) == 1, "the chart"
    )
    see(browser, f"{TOPIC}-0", ".chart")
