"""Every kind of stream operator over the topics of a shop, in one driver, for strikes.

Run as a program, it is the driver: python struck_streams.py BOOTSTRAP DIRECTORY PREFIX KINDS MASTER
once|on. A query that fails is started again, which is told on a line of its own.
"""

import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import ledgerstone.spark
from ledgerstone.client.blocking import Client
from ledgerstone.client.producer import NewRecord
from ledgerstone.pipeline.shapes import StandaloneCluster
from ledgerstone.pipeline.streams import Topic, kstream, to_topic
from ledgerstone.pipeline.streams.aggregating import GroupedTable, aggregate_table
from ledgerstone.pipeline.streams.joining import join_tables
from ledgerstone.pipeline.streams.totals import Aggregate, MeasureKind
from tests.spark.conftest import Produce
from tests.spark.killing import MARK
from tests.spark.strikes import tell
from tests.transactions.kit import committed

# Inputs; the copied one is not compacted and has every key once.
CUSTOMERS, MAILS, ORDERS, EVENTS = "customers", "mails", "orders", "events"
INPUTS = (CUSTOMERS, MAILS, ORDERS, EVENTS)
# What is written in transactions, so that nothing is there twice.
ONCE = ("totals-once", "join", "foreign-key", "copy")
KINDS = ("totals", *ONCE)
COUNTRIES = ("PL", "PT", "NO", "IS")
CUSTOMER = "country string, paid bigint"
RESTARTED = "started again: "
STARTS = 10
# Spark gives the Python process of a query that starts ten seconds; a busy machine takes longer.
NOT_STARTED = "Python worker failed to connect back"
_POLL_S = 0.2
SETTINGS = {
    "spark.log.level": "ERROR",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.shuffle.partitions": "2",
    # Queries over a few rows, in JVMs that live for a minute: compiling each and planning it anew
    # costs more than running it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}

Fields = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class StruckStreams:
    """`live` is what each compacted input says so far."""

    directory: Path
    bootstrap: str
    prefix: str
    kinds: list[str]
    produce: Produce
    dice: random.Random
    live: dict[str, dict[str, Fields]] = field(
        default_factory=lambda: {name: {} for name in (CUSTOMERS, MAILS, ORDERS)}
    )
    copied: int = 0
    numbered: int = 0

    @property
    def log_text(self) -> str:
        return (self.directory / "run.log").read_text(encoding="utf-8", errors="replace")

    def start(self, master: str, *, once: bool) -> "subprocess.Popen[bytes]":
        # Another one is the first each time, so that a driver that dies early dies in each of them.
        kinds = ",".join(self.dice.sample(self.kinds, len(self.kinds)))
        mode = "once" if once else "on"
        words = (self.bootstrap, str(self.directory), self.prefix, kinds, master, mode)
        root = Path(__file__).parents[2]
        paths = os.pathsep.join([str(root / "src"), str(root), str(root / "tools")])
        environment = {
            **StandaloneCluster.environment(),
            MARK: str(self.directory),
            "PYTHONPATH": paths,
        }
        with (self.directory / "run.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, __file__, *words], stdout=log, stderr=log, env=environment
            )

    # -- what is written ----------------------------------------------------------------------

    def write(self, count: int) -> None:
        self.produce(*(self._record() for _ in range(count)))

    def _record(self) -> NewRecord:
        topic = self.dice.choice(INPUTS)
        if topic == EVENTS:
            self.copied += 1
            return NewRecord(self._name(EVENTS), b"%d" % self.copied, b"v")
        live, key = self.live[topic], self._key_of(topic)
        if self.dice.random() < 0.3:
            live.pop(key, None)
            return NewRecord(self._name(topic), key.encode(), None)
        live[key] = self._fields_of(topic)
        return NewRecord(self._name(topic), key.encode(), json.dumps(live[key]).encode())

    def _key_of(self, topic: str) -> str:
        return f"o{self.dice.randrange(60)}" if topic == ORDERS else f"c{self.dice.randrange(20)}"

    def _fields_of(self, topic: str) -> Fields:
        """None is there twice, so that every change of an input changes a result."""
        self.numbered += 1
        if topic == CUSTOMERS:
            return {"country": self.dice.choice(COUNTRIES), "paid": self.numbered}
        if topic == MAILS:
            return {"mail": f"m{self.numbered}"}
        return {"customer": f"c{self.dice.randrange(20)}", "amount": self.numbered}

    def _name(self, topic: str) -> str:
        return f"{self.prefix}-{topic}"

    # -- how far it is ------------------------------------------------------------------------

    def progress(self) -> Mapping[str, int]:
        return {kind: self._newest(kind, "commits") + 1 for kind in self.kinds}

    def in_work(self) -> set[str]:
        """Spark notes the offsets of a micro-batch before it, and a commit after it."""
        return {
            kind
            for kind in self.kinds
            if self._newest(kind, "offsets") > self._newest(kind, "commits")
        }

    def _newest(self, kind: str, log: str) -> int:
        place = self.directory / kind / "checkpoint" / log
        names = os.listdir(place) if place.exists() else []
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def restarts(self) -> Counter[str]:
        lines = self.log_text.splitlines()
        told = [line.removeprefix(RESTARTED) for line in lines if line.startswith(RESTARTED)]
        return Counter(line.partition(":")[0] for line in told)

    # -- what has to come out -----------------------------------------------------------------

    def assert_equal_to_the_model(self, client: Client) -> None:
        for kind in self.kinds:
            found = committed(client, f"{self.prefix}-{result_of(kind)}")
            if kind == "copy":
                expected = Counter(b"%d" % (n + 1) for n in range(self.copied))
                assert Counter(key for key, _ in found) == expected
                continue
            if kind in ONCE:
                _assert_no_repetition(kind, found)
            assert _folded(found) == self._expected(kind), kind

    def _expected(self, kind: str) -> dict[str, Fields]:
        customers, mails, orders = (self.live[name] for name in (CUSTOMERS, MAILS, ORDERS))
        if kind == "join":
            return {
                key: {
                    "paid": customers.get(key, {}).get("paid"),
                    "mail": mails.get(key, {}).get("mail"),
                }
                for key in {*customers, *mails}
            }
        if kind == "foreign-key":
            return {
                key: {
                    "amount": order["amount"],
                    "paid": customers.get(order["customer"], {}).get("paid"),
                }
                for key, order in orders.items()
            }
        groups: dict[str, list[int]] = {}
        for customer in customers.values():
            groups.setdefault(customer["country"], []).append(customer["paid"])
        return {
            json.dumps({"value.country": country}): {
                "n": len(paid), "paid": sum(paid), "least": min(paid), "most": max(paid)
            }
            for country, paid in groups.items()
        }  # fmt: skip


def _folded(records: list[tuple[bytes | None, bytes | None]]) -> dict[str, Fields]:
    found: dict[str, Fields] = {}
    for key, value in records:
        name = (key or b"").decode()
        if value is None:
            found.pop(name, None)
        else:
            found[name] = json.loads(value)
    return found


def _assert_no_repetition(kind: str, records: list[tuple[bytes | None, bytes | None]]) -> None:
    """A result is told only if it differs from the one before; so twice the same is a duplicate."""
    last: dict[bytes | None, bytes | None] = {}
    for key, value in records:
        assert last.get(key, b"never told") != value, f"{kind}: {key!r} has {value!r} twice"
        last[key] = value


def result_of(kind: str) -> str:
    return f"result-{kind}"


# -- the driver -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    spark: SparkSession
    bootstrap: str
    directory: Path
    prefix: str
    once: bool

    def query(self, kind: str) -> StreamingQuery:
        to = self._topic(result_of(kind))
        work = str(self.directory / kind)
        customers = self._topic(CUSTOMERS, CUSTOMER)
        joined: Callable[..., StreamingQuery] = join_tables
        match kind:
            case "copy":
                rows = kstream(self.spark, self._topic(EVENTS)).select("key", "value")
                place = f"{work}/checkpoint"
                return to_topic(rows, to, checkpoint=place, once=self.once, exactly_once=True)
            case "join":
                mails = self._topic(MAILS, "mail string")
                value = ["left.paid AS paid", "right.mail AS mail"]
                return joined(
                    self.spark, customers, mails, to,
                    value=value, work=work, how="full", once=self.once, exactly_once=True,
                )  # fmt: skip
            case "foreign-key":
                orders = self._topic(ORDERS, "customer string, amount bigint")
                value = ["left.amount AS amount", "right.paid AS paid"]
                return joined(
                    self.spark, orders, customers, to, foreign_key="value.customer",
                    value=value, work=work, how="left", once=self.once, exactly_once=True,
                )  # fmt: skip
        kinds = (MeasureKind.SUM, MeasureKind.MIN, MeasureKind.MAX)
        measured = [
            Aggregate(name=name, kind=each, column="value.paid")
            for name, each in zip(("paid", "least", "most"), kinds, strict=True)
        ]
        grouped = GroupedTable(
            source=customers,
            by=("value.country",),
            aggregates=(Aggregate(name="n", kind=MeasureKind.COUNT), *measured),
            to=to,
            work=work,
            exactly_once=kind == "totals-once",
        )
        return aggregate_table(self.spark, grouped, once=self.once)

    def _topic(self, name: str, value: str = "binary") -> Topic:
        reads = {"maxOffsetsPerTrigger": "30"} if name in INPUTS else {}
        return Topic(
            bootstrap=self.bootstrap, name=f"{self.prefix}-{name}", value=value, options=reads
        )


def main(arguments: list[str]) -> None:
    bootstrap, directory, prefix, kinds, master, mode = arguments
    spark = ledgerstone.spark.session(
        "shop", master=master, short_lived=True,
        conf=SETTINGS,
    )  # fmt: skip
    shop = Shop(
        spark=spark,
        bootstrap=bootstrap,
        directory=Path(directory),
        prefix=prefix,
        once=mode == "once",
    )
    _keep_up(shop, kinds.split(","))


def _keep_up(shop: Shop, kinds: list[str]) -> None:
    """From one thread: Spark knows our format only in the thread that has made the session. One
    after the other, so that there is time for each Python process to start."""
    left = Counter(dict.fromkeys(kinds, STARTS))
    queries: dict[str, StreamingQuery] = {}
    pause = threading.Event()
    while left:
        for kind in list(left):
            try:
                if kind in queries:
                    if not queries[kind].isActive:
                        queries[kind].awaitTermination()  # raises what it failed with
                        del left[kind]
                elif all(each.lastProgress or not each.isActive for each in queries.values()):
                    queries[kind] = shop.query(kind)
            except Exception as error:
                queries.pop(kind, None)
                text = " ".join(str(error).split())[:2000]
                # It comes to no end on a busy machine, and is no failure of a job.
                left[kind] -= NOT_STARTED not in text
                if not left[kind]:
                    raise
                tell(f"{RESTARTED}{kind}: {text}")
        pause.wait(_POLL_S)


if __name__ == "__main__":
    main(sys.argv[1:])
