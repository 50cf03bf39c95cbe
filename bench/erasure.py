"""Measures the time from an erasure request to its receipt, on a separate broker.

    python -m bench.erasure [--quick]

A topic of 1 GiB with delete.retention.ms=0 in four partitions, 1 KB values, every key written five
times; the clock is virtual, so that file.delete.delay.ms passes at once. What is left is work: a
search, two passes over each partition that holds the key, a scan of every file. Then a thousand
keys in one batch on the same topic, which must cost no more than three passes of each partition.
"""

import argparse
import json
import time
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

from confluent_kafka import Producer

from bench.broker_process import broker_process
from bench.cleaner import MIB, scratch
from bench.table import Row, render
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint

TOPIC: Final = "customers"
PARTITIONS: Final = 4
VALUE_BYTES: Final = 1000
WRITTEN_TIMES: Final = 5
MANY: Final = 1000
MOST_PASSES: Final = 3
TIMEOUT_S: Final = 600.0
CONFIGS: Final = {"cleanup.policy": "compact", "delete.retention.ms": "0"}


class Api:
    def __init__(self, http: str) -> None:
        self._http = http

    def get(self, path: str) -> dict[str, Any]:
        with urlopen(f"{self._http}/api/v1/{path}", timeout=60) as response:
            answer: dict[str, Any] = json.load(response)
        return answer

    def post(self, path: str, **content: object) -> dict[str, Any]:
        request = Request(
            f"{self._http}/api/v1/{path}",
            data=json.dumps(content).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urlopen(request, timeout=60) as response:
            answer: dict[str, Any] = json.load(response)
        return answer


def fill(bootstrap: str, keys: Sequence[bytes]) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "partitioner": "murmur2_random"}
    )
    value = bytes(range(250)) * (VALUE_BYTES // 250)
    for _ in range(WRITTEN_TIMES):
        for key in keys:
            while True:
                try:
                    producer.produce(TOPIC, key=key, value=value)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush()


def erase(api: Api, keys: Sequence[bytes]) -> list[str]:
    ids = []
    for start in range(0, len(keys), 200):
        some = [b64encode(each).decode() for each in keys[start : start + 200]]
        made = api.post(
            f"topics/{TOPIC}/erasures", keys=some, reason="a benchmark", requested_by="bench"
        )
        ids += [each["id"] for each in made["erasures"]]
    return ids


def await_receipts(api: Api, ids: Sequence[str]) -> None:
    """Moves the clock to whatever is waited for, as `erase --wait` does."""
    deadline = time.monotonic() + TIMEOUT_S
    left = list(ids)
    while left:
        erasure = api.get(f"erasures/{left[-1]}")
        if erasure["has_receipt"]:
            left.pop()
            continue
        if erasure["is_over"] or time.monotonic() > deadline:
            raise RuntimeError(f"no receipt: {erasure}")
        until_ms = erasure["waits_until_ms"]
        if until_ms is not None and until_ms > erasure["now_ms"]:
            api.post("clock/advance", ms=until_ms - erasure["now_ms"])
        time.sleep(0.05)


def passes(api: Api) -> dict[int, int]:
    counts = dict.fromkeys(range(PARTITIONS), 0)
    for run in api.get(f"cleaner/history?topic={TOPIC}")["runs"]:
        counts[run["partition"]] += 1
    return counts


def size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*.log"))


def plain_read_s(directory: Path) -> float:
    started = time.perf_counter()
    for path in directory.rglob("*.log"):
        with path.open("rb", buffering=0) as file:
            while file.read(2 * MIB):
                pass
    return time.perf_counter() - started


def run(*, quick: bool = False) -> list[Row]:
    total = 64 * MIB if quick else 1024 * MIB
    count = total // (VALUE_BYTES + 40) // WRITTEN_TIMES
    keys = [b"customer-%012d" % number for number in range(count)]
    settings = {"ledgerstone.cleaner.history.runs": "1000"}
    with (
        scratch() as directory,
        broker_process(directory, settings, ("--clock", "virtual")) as broker,
    ):
        api = Api(json.loads((directory / "ready.json").read_text())["http"])
        with Client([Endpoint(broker.host, broker.port)]) as client:
            create_topic(client, NewTopic(name=TOPIC, partitions=PARTITIONS, configs=CONFIGS))
        fill(broker.bootstrap, keys)
        size = size_of(directory / "data")
        read_s = plain_read_s(directory / "data")
        one_s = _timed(api, keys[:1])
        before = passes(api)
        many_s = _timed(api, keys[1 : 1 + MANY])
        after = passes(api)
    most = max(after[number] - before[number] for number in after)
    label = f"{size / MIB:.0f} MiB, {count} keys"
    return [
        Row(f"erase to receipt, {label}", one_s, "s", "plain read", read_s, read_s / one_s, None),
        Row(f"{MANY} keys in one batch, to the last receipt", many_s, "s", "one key", one_s,
            one_s / many_s, None),
        Row(f"passes of a partition for {MANY} keys", most, "passes", "at most", MOST_PASSES,
            MOST_PASSES / most, 1.0),
    ]  # fmt: skip


def _timed(api: Api, keys: Sequence[bytes]) -> float:
    started = time.perf_counter()
    await_receipts(api, erase(api, keys))
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="64 MiB instead of 1 GiB")
    print(render(run(quick=parser.parse_args().quick)))


if __name__ == "__main__":
    main()
