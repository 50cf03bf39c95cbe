"""The pages of a cluster in a real browser: whole, on a phone, and changing by themselves."""

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from chromium import complaints, why_missing
from ledgerstone.testing.cluster import LedgerstoneCluster
from tests.kit.broker import wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(why_missing() is not None, reason=why_missing() or ""),
]
VIEWS = ("/cluster", "/topics/orders/replicas?partition=1")
PHONE = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": False}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerstoneCluster]:
    with LedgerstoneCluster(tmp_path_factory.mktemp("cluster")) as nodes:
        nodes.topic("orders", compacted=True, partitions=3, segment_ms=1000)
        nodes.produce_batch("orders", [(f"k{each % 7}", "v" * 50) for each in range(200)])
        nodes.wait_in_sync()
        yield nodes


@pytest.fixture
def browser(chrome: Chrome, cluster: LedgerstoneCluster) -> Iterator[Chrome]:
    """Nothing that a page loads, runs or violates is complained about."""
    chrome.delete_all_cookies()
    chrome.get(cluster.nodes[1].page)
    complaints(chrome)
    yield chrome
    assert complaints(chrome) == []
    chrome.get("about:blank")


def text_of(browser: Chrome) -> str:
    return str(browser.execute_script("return document.body.innerText"))


@pytest.mark.parametrize("path", VIEWS)
def test_view_loads_without_a_complaint_and_fits_a_phone(
    browser: Chrome, cluster: LedgerstoneCluster, path: str
) -> None:
    browser.get(cluster.nodes[1].http + path)
    assert len(browser.find_elements(By.TAG_NAME, "h1")) == 1

    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    try:
        browser.get(cluster.nodes[1].http + path)
        width = browser.execute_script("return document.scrollingElement.scrollWidth")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert width <= PHONE["width"]


def test_every_replica_is_drawn(browser: Chrome, cluster: LedgerstoneCluster) -> None:
    browser.get(f"{cluster.nodes[1].http}/topics/orders/replicas")

    # While an analysis is under way, the page loads itself again.
    wait_until(
        lambda: browser.execute_script("return !document.querySelector('[data-busy]')"),
        "every byte is counted",
    )
    assert browser.find_elements(By.CSS_SELECTOR, "section[data-node='3'] rect.live")
    drawn = browser.find_elements(By.CSS_SELECTOR, "section.anatomy[data-node] svg.strip")

    assert len(drawn) == 3
    assert "did not answer" not in text_of(browser)


def test_page_follows_a_node_that_stops_and_comes_back(
    browser: Chrome, cluster: LedgerstoneCluster
) -> None:
    browser.get(f"{cluster.nodes[1].http}/cluster")
    browser.execute_script("window.loaded_once = true")
    assert "All replicas are in sync" in text_of(browser)

    cluster.stop(3)
    wait_until(lambda: "3 partitions are under-replicated" in text_of(browser), "it is seen")
    assert "2 of 3" in text_of(browser)
    cluster.start(3)

    wait_until(lambda: "All replicas are in sync" in text_of(browser), "it is back")
    assert browser.execute_script("return window.loaded_once") is True
