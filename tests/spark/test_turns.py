"""Pipelines of one session that always have records: each gets its share, however it is named."""

import threading
import time
from collections import Counter

from pyspark.sql import SparkSession

from ledgerstone.pipeline.executors import SparkExecutors
from ledgerstone.pipeline.served_runs import POOL
from ledgerstone.pipeline.turns import Turns

NAMES = ("a", "b", "c", "d", "e", "f")
JOBS = 48  # eight for each


def nap(job: int) -> int:
    time.sleep(0.05)
    return job


def test_a_late_name_is_not_left_behind(spark: SparkSession) -> None:
    assert spark.conf.get("spark.scheduler.mode") == "FAIR"
    executors = SparkExecutors(spark, Turns())
    done: Counter[str] = Counter()
    failures: list[Exception] = []

    def work(name: str) -> None:
        spark.sparkContext.setLocalProperty(POOL, name)
        try:
            while done.total() < JOBS:
                executors.run(nap, [0, 1])
                done[name] += 1
        except Exception as error:  # noqa: BLE001 - the test tells it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in NAMES]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert not failures
    assert min(done[name] for name in NAMES) * 2 >= max(done.values()), done


def test_who_waits_longest_is_next() -> None:
    turns = Turns()
    order: list[int] = []

    def work(number: int) -> None:
        with turns.one_of(1):
            order.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    with turns.one_of(1):
        for number, each in enumerate(threads):
            each.start()
            while turns.waiting <= number:
                threading.Event().wait(0.001)
    for each in threads:
        each.join()

    assert order == list(range(6))
