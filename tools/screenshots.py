"""Pictures of the page for the documentation, from a broker that has lived a little. Shell.

    python tools/screenshots.py [--out docs/pictures] [--only topic,groups]
        [--dark] [--phone] [--whole]

Starts a broker on a virtual clock, writes customers and orders, lets days pass and passes run, has
groups fall behind and a key erased, and photographs every view. Needs chromium and chromedriver.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

from selenium.webdriver import Chrome

from chromium import open_chromium, prefer_dark, why_missing
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.offsets import CommittedOffset, commit_offsets
from ledgerstone.client.producer import NewRecord, Producer
from ledgerstone.types import TopicPartition

OUT: Final = Path("docs/pictures")
TIMEOUT_S: Final = 60.0
WIDTH: Final = 1200
LOWEST: Final = 420
HIGHEST: Final = 900
PHONE: Final = (390, 844)
_WHOLE: Final = 8000
_POLL_S: Final = 0.05
_HOUR_MS: Final = 3_600_000
_CITIES: Final = ("Lisbon", "Vienna", "Oslo", "Ghent", "Turin", "Krakow")
_WORDS: Final = (
    "prefers",
    "calls",
    "in",
    "the",
    "morning",
    "gift",
    "wrap",
    "door",
    "code",
    "changed",
)
_STEPS: Final = ("placed", "paid", "packed", "shipped", "delivered")


class Broker:
    """One that was started for the pictures."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.http = str(facts["http"])
        self.token = str(facts["token"])
        host, _, port = str(facts["bootstrap"]).rpartition(":")
        self.client = Client([Endpoint(host, int(port))])

    def api(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        request = Request(f"{self.http}/api/v1/{path}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        with urlopen(request, timeout=TIMEOUT_S) as answer:
            content: dict[str, Any] = json.load(answer)
        return content

    def advance(self, *, hours: float) -> None:
        self.api("clock/advance", {"ms": int(hours * _HOUR_MS)})

    def now_ms(self) -> int:
        return int(self.api("clock")["now_ms"])

    def compact(self, topic: str) -> None:
        tickets = self.api(f"topics/{topic}/compact", {})["tickets"]
        for each in tickets:
            until(partial(self._is_done, each["ticket"]), f"pass {each['ticket']}")

    def is_found(self, search: int) -> bool:
        return bool(self.api(f"searches/{search}")["done"])

    def _is_done(self, ticket: int) -> bool:
        return bool(self.api(f"tickets/{ticket}")["done"])


def until(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise SystemExit(f"waited {TIMEOUT_S} s in vain for {what}")
        time.sleep(_POLL_S)


@contextmanager
def running_broker(directory: Path) -> Iterator[Broker]:
    ready = directory / "ready.json"
    command = [sys.executable, "-m", "ledgerstone", "up", "--clock", "virtual"]
    command += ["--data", str(directory / "data"), "--ready-file", str(ready)]
    command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    command += ["-c", "log.cleaner.backoff.ms=200", "-c", "offsets.topic.num.partitions=4"]
    with (directory / "broker.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until(lambda: ready.exists() or process.poll() is not None, "the broker")
        if process.poll() is not None:
            raise SystemExit((directory / "broker.log").read_text(encoding="utf-8"))
        yield Broker(json.loads(ready.read_text(encoding="utf-8")))
    finally:
        process.terminate()
        process.wait()


def live_a_little(broker: Broker) -> None:
    """Three days of a small shop."""
    dice = random.Random(7)
    compacted = {
        "cleanup.policy": "compact",
        "segment.bytes": "60000",
        "delete.retention.ms": str(24 * _HOUR_MS),
        "min.cleanable.dirty.ratio": "0.5",
    }
    create_topic(broker.client, NewTopic(name="customers", partitions=3, configs=compacted))
    create_topic(broker.client, NewTopic(name="orders", partitions=2, configs={}))
    producer = Producer(broker.client)
    for day in range(3):
        for hour in range(6):
            now_ms = broker.now_ms()
            placed = [_customer(dice, now_ms) for _ in range(220)]
            placed += [_order(dice, now_ms, day * 600 + hour * 100 + n) for n in range(60)]
            producer.send(placed)
            broker.advance(hours=2)
        broker.advance(hours=12)
        if day < 2:
            broker.compact("customers")
    _groups(broker)
    _erasures(broker)
    _accounts(broker)
    producer.send([_customer(dice, broker.now_ms()) for _ in range(150)])
    _late_erasure(broker)


def _accounts(broker: Broker) -> None:
    """A log with a clean tail, a dirty head and deletes that wait, for the anatomy page."""
    dice = random.Random(11)
    configs = {
        "cleanup.policy": "compact",
        "segment.bytes": "98304",
        "delete.retention.ms": str(24 * _HOUR_MS),
        "min.cleanable.dirty.ratio": "0.7",
    }
    create_topic(broker.client, NewTopic(name="accounts", partitions=2, configs=configs))
    producer = Producer(broker.client)

    def write(numbers: list[int], deleted: float) -> None:
        now_ms = broker.now_ms()
        # Batches that are small beside a segment.
        for start in range(0, len(numbers), 60):
            records = [_account(dice, n, deleted, now_ms) for n in numbers[start : start + 60]]
            producer.send(records)

    known = 5200
    write(list(range(known)), 0)
    broker.advance(hours=1)
    for hours, count in ((5, 1500), (8, 1200), (4, 900)):
        write([dice.randrange(known) for _ in range(count)], 0.12)
        broker.compact("accounts")
        broker.advance(hours=hours)
    write([min(int(dice.expovariate(1 / 1500)), known) for _ in range(2600)], 0.03)
    broker.advance(hours=0.7)
    write([dice.randrange(known) for _ in range(900)], 0.05)


def _account(dice: random.Random, number: int, deleted: float, now_ms: int) -> NewRecord:
    key = f"account-{number:05d}".encode()
    if dice.random() < deleted:
        return NewRecord("accounts", key, None, timestamp_ms=now_ms)
    value = {"owner": number, "balance": dice.randrange(10**6), "note": "." * dice.randrange(90)}
    return NewRecord("accounts", key, json.dumps(value).encode(), timestamp_ms=now_ms)


def _customer(dice: random.Random, now_ms: int) -> NewRecord:
    number = min(int(dice.expovariate(1 / 90)), 399)
    key = f"customer-{number:04d}".encode()
    if dice.random() < 0.1:
        return NewRecord("customers", key, None, timestamp_ms=now_ms)
    value = {
        "name": f"Customer {number}",
        "city": dice.choice(_CITIES),
        "orders": dice.randrange(40),
        "note": " ".join(dice.choices(_WORDS, k=dice.randrange(9))),
    }
    headers = (("source", b"crm"), ("schema", b"customer.v3"))
    return NewRecord(
        "customers", key, json.dumps(value).encode(), headers=headers, timestamp_ms=now_ms
    )


def _order(dice: random.Random, now_ms: int, number: int) -> NewRecord:
    value = {"order": number, "step": dice.choice(_STEPS), "total": dice.randrange(500, 20000)}
    key = f"order-{number:05d}".encode()
    return NewRecord("orders", key, json.dumps(value).encode(), timestamp_ms=now_ms)


def _groups(broker: Broker) -> None:
    for group, behind in (("billing", 12), ("search-index", 340), ("warehouse-sync", 0)):
        offsets = {}
        for each in broker.api("topics/customers/cleaning")["partitions"]:
            tp = TopicPartition("customers", each["partition"])
            offsets[tp] = CommittedOffset(max(each["log_end_offset"] - behind, 0))
        commit_offsets(broker.client, group, offsets)


def _late_erasure(broker: Broker) -> None:
    """One that cannot be done in time: retention alone is a day."""
    Producer(broker.client).send([NewRecord("customers", b"customer-0029", b"{}")])
    body = {
        "key": b64encode(b"customer-0029").decode(),
        "reason": "Art. 17 GDPR, ticket 4780",
        "requested_by": "privacy desk",
        "within_ms": 6 * _HOUR_MS,
    }
    made = broker.api("topics/customers/erasures", body)["erasures"][0]
    until(lambda: broker.api(f"erasures/{made['id']}")["will_miss"], "an erasure at risk")


def _deleted(broker: Broker) -> tuple[int, int]:
    """Partition and offset of a tombstone that waits for its horizon."""
    clean = {
        each["partition"]: each["first_dirty_offset"]
        for each in broker.api("topics/accounts/anatomy")["partitions"]
    }
    for number in range(500):
        key = b64encode(b"account-%05d" % number).decode()
        search = broker.api("topics/accounts/where", {"key": key})["search"]
        until(partial(broker.is_found, search), "a search")
        places = broker.api(f"searches/{search}")["answer"]["places"]
        last = max(places, key=lambda each: int(each["offset"]), default=None)
        if last and last["is_tombstone"] and last["offset"] < clean[last["partition"]]:
            return int(last["partition"]), int(last["offset"])
    raise SystemExit("no key is deleted")


def _erasures(broker: Broker) -> None:
    for key, days in ((b"customer-0003", 30), (b"customer-0017", 14)):
        # Written once more: a key that is gone already has nothing to erase.
        written = NewRecord("customers", key, b"{}", timestamp_ms=broker.now_ms())
        Producer(broker.client).send([written])
        body = {
            "key": b64encode(key).decode(),
            "reason": "Art. 17 GDPR, ticket 4711",
            "requested_by": "privacy desk",
            "within_ms": days * 24 * _HOUR_MS,
        }
        made = broker.api("topics/customers/erasures", body)["erasures"][0]
        wanted = ("receipted",) if days == 30 else ("stamped", "tombstoned")

        def is_there(erasure: str = made["id"], wanted: tuple[str, ...] = wanted) -> bool:
            found = broker.api(f"erasures/{erasure}")
            if found["status"] not in wanted:
                broker.advance(hours=25 if found["waits_until_ms"] else 0.1)
            return found["status"] in wanted

        if days == 30:
            # The customer comes back: a later life of the key, which the receipt names.
            until(lambda: is_there(wanted=("stamped",)), "an erasure that is stamped")
            again = NewRecord("customers", key, b"{}", timestamp_ms=broker.now_ms())
            Producer(broker.client).send([again])
        until(is_there, f"an erasure that is {wanted[0]}")


def views(broker: Broker) -> dict[str, str]:
    erasures = broker.api("erasures")["erasures"]
    done = next(each["id"] for each in erasures if each["has_receipt"])
    late = next(each["id"] for each in erasures if each["will_miss"])
    number, offset = _deleted(broker)
    return {
        "overview": "/",
        "topics": "/topics",
        "topic": "/topics/customers",
        "records": "/topics/customers/records",
        "latest": "/topics/customers/latest",
        "anatomy": "/topics/accounts/anatomy",
        "anatomy-record": f"/topics/accounts/anatomy?partition={number}&offset={offset}",
        "key-history": f"/topics/accounts/keys?partition={number}&offset={offset}",
        "record": f"/topics/accounts/records/{number}/{offset}",
        "produce": "/topics/customers/produce",
        "cleaner": "/cleaner",
        "erasures": "/erasures",
        "erasure": f"/erasures/{done}",
        "erasure-late": f"/erasures/{late}",
        "groups": "/groups",
        "group": "/groups/search-index",
    }


def photograph(browser: Chrome, url: str, file: Path, width: int, highest: int) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": LOWEST, "deviceScaleFactor": 1, "mobile": False},
    )
    browser.get(url)
    busy = "return document.querySelector('[data-busy]') === null"
    until(lambda: browser.execute_script(busy), f"{url} to settle")
    script = "return document.documentElement.scrollHeight"
    height = int(browser.execute_script(script))
    shown = {"width": width, "height": min(max(height, LOWEST), highest)}
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {**shown, "deviceScaleFactor": 1, "mobile": False}
    )
    picture = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    file.write_bytes(b64decode(picture["data"]))


def load(broker: Broker, browser: Chrome) -> None:
    """Some seconds of traffic with the overview open, for its chart."""
    browser.get(f"{broker.http}/")
    dice = random.Random(8)
    producer = Producer(broker.client)
    for second in range(25):
        now_ms = broker.now_ms()
        count = 60 + int(50 * abs((second % 12) - 6))
        producer.send([_order(dice, now_ms, 5000 + n) for n in range(count)])
        time.sleep(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--only", default="", help="names of views, with commas between them")
    parser.add_argument("--dark", action="store_true", help="in the dark scheme, as NAME-dark.png")
    parser.add_argument("--phone", action="store_true", help="as on a phone, as NAME-phone.png")
    parser.add_argument("--whole", action="store_true", help="however long a page is")
    options = parser.parse_args()
    if (missing := why_missing()) is not None:
        raise SystemExit(missing)
    options.out.mkdir(parents=True, exist_ok=True)
    width, height = PHONE if options.phone else (WIDTH, LOWEST)
    highest = _WHOLE if options.whole else HIGHEST
    suffix = ("-phone" if options.phone else "") + ("-dark" if options.dark else "")
    with tempfile.TemporaryDirectory() as name, running_broker(Path(name)) as broker:
        live_a_little(broker)
        browser = open_chromium(Path(name) / "profile", width=width, height=height)
        try:
            prefer_dark(browser, is_dark=options.dark)
            browser.get(f"{broker.http}/?token={broker.token}")
            for view, path in views(broker).items():
                if options.only and view not in options.only.split(","):
                    continue
                if view == "overview":
                    load(broker, browser)
                file = options.out / f"{view}{suffix}.png"
                photograph(browser, broker.http + path, file, width, highest)
                print(f"{file} {file.stat().st_size}")
        finally:
            browser.quit()


if __name__ == "__main__":
    main()
