"""What quotas cost a request, in process: CPU of the one thread that everything runs on.

    python -m bench.quotas [--quick]

Requests are charged as the broker charges them, for one client among many. Off is what a broker
pays while no quota is set: the question whether there is one.
"""

import argparse
import time
from collections.abc import Callable

from bench.table import Row, at_most, published, render
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.protocol.api import ApiKey
from ledgerstone.protocol.messages.metadata import MetadataResponse
from ledgerstone.protocol.single_produce import single_produce_answer
from ledgerstone.quotas.counters import rate_counters
from ledgerstone.quotas.entities import QuotaEntity
from ledgerstone.security.principal import Principal
from ledgerstone.server.quotas.client_quotas import ClientQuotas
from ledgerstone.server.request import Request
from ledgerstone.server.session import Session

CLIENTS = 100
LIMIT_US = 1.0
RECORD_US = 0.5
VERSION = 12


def best_us(work: Callable[[int], None], *, times: int, rounds: int) -> float:
    """CPU microseconds of one call, in the best of some rounds."""
    found = []
    for _ in range(rounds):
        began_s = time.process_time()
        for number in range(times):
            work(number)
        found.append((time.process_time() - began_s) / times * 1e6)
    return min(found)


def quotas(**limits: float) -> ClientQuotas:
    made = ClientQuotas(BrokerConfig.from_raw({}))
    everybody = QuotaEntity.of({"user": None, "client-id": None})
    made.follow(MetadataImage(cluster_id="bench", client_quotas={everybody: limits}))
    return made


def requests(api_key: int) -> list[Request]:
    return [
        Request(
            number,
            api_key,
            VERSION,
            1,
            f"client-{number}",
            Session("127.0.0.1", principal=Principal("User", f"user-{number}")),
            0,
            1000,
        )
        for number in range(CLIENTS)
    ]


def rows(*, times: int, rounds: int) -> list[Row]:
    def cost(work: Callable[[int], None]) -> float:
        return best_us(work, times=times, rounds=rounds)

    nothing = cost(lambda number: None)

    def net(work: Callable[[int], None]) -> float:
        return max(cost(work) - nothing, 0.0)

    large = 1e12
    body = single_produce_answer(VERSION, "topic", 0, 5, -1, 0)
    produced, fetched, asked = (
        requests(key) for key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA)
    )
    by_bytes = quotas(producer_byte_rate=large, consumer_byte_rate=large)
    by_all = quotas(producer_byte_rate=large, consumer_byte_rate=large, request_percentage=1e6)
    answer = MetadataResponse()
    counters = rate_counters(samples=11, window_ms=1000)
    counter = counters.get("user", "client")

    def turn(number: int) -> None:
        by_all.turn_took(asked[number % CLIENTS].session, 20_000, number >> 4)

    def off(number: int) -> None:
        if none.is_active:
            raise AssertionError

    none = ClientQuotas(BrokerConfig.from_raw({}))
    return [
        at_most("one record and its throttle time", "µs", net(
            lambda number: ignore(counter.record(1000, number >> 4))), RECORD_US),
        published("no quota is set", "µs", net(off)),
        at_most("Produce, bytes", "µs", net(
            lambda number: ignore(by_bytes.answered(produced[number % CLIENTS], body, number >> 4))
        ), LIMIT_US),
        at_most("Fetch, bytes", "µs", net(
            lambda number: ignore(by_bytes.fetched(fetched[number % CLIENTS], 1000, number >> 4))
        ), LIMIT_US),
        at_most("Metadata, while bytes are limited", "µs", net(
            lambda number: ignore(by_bytes.answered(asked[number % CLIENTS], answer, number >> 4))
        ), LIMIT_US),
        published("Produce, bytes and time", "µs", net(
            lambda number: ignore(by_all.answered(produced[number % CLIENTS], body, number >> 4))
        )),
        published("time of a turn", "µs", net(turn)),
    ]  # fmt: skip


def ignore(found: object) -> None:
    """What was counted matters, not what came of it."""


def run(*, quick: bool = False) -> list[Row]:
    return rows(times=20_000 if quick else 200_000, rounds=3 if quick else 7)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    print(render(run(quick=parser.parse_args().quick)))


if __name__ == "__main__":
    main()
