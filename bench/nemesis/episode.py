"""One cluster from its first start to the verdict on its history. Shell."""

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.nemesis.acts import HEAL_LIMIT_S, Acts
from bench.nemesis.arena import Arena, arena
from bench.nemesis.clients import (
    LOG,
    LOG_PARTITIONS,
    TABLE,
    TABLE_PARTITIONS,
    Worker,
    our_client,
)
from bench.nemesis.last_look import compare_files, read_replicas, read_through_clients
from bench.nemesis.librdkafka import (
    ConfluentAppender,
    ConfluentMember,
    ConfluentReader,
    ConfluentTransactions,
)
from bench.nemesis.ours import OurAppender, OurCommitter, OurReader, OurTransactions
from bench.nemesis.recorder import Recorder
from bench.nemesis.schedule import Fault, Kind, draw
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.sim.history.check import check
from tests.kit.broker import wait_until

Say = Callable[[str], None]

# After a fault: until clients get on, and how many more records must be acknowledged.
PROGRESS_LIMIT_S: Final = 90.0
PROGRESS_RECORDS: Final = 20
END_LIMIT_S: Final = 120.0
TABLE_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.ms": "3000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1000",
    "max.compaction.lag.ms": "3000",
}


@dataclass(slots=True)
class Verdict:
    seed: int
    kills: int = 0
    cuts: int = 0
    faults: Counter[Kind] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    # By kind.
    anomalies: Counter[str] = field(default_factory=Counter)
    texts: list[str] = field(default_factory=list)
    # The longest time without an acknowledged record, around each fault.
    gaps_ms: list[tuple[Kind, float]] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.texts


def run_episode(
    kind: str,
    seed: int,
    work: Path,
    *,
    kills: int,
    cuts: int,
    say: Say,
    only: Sequence[Kind] = (),
    deadline_s: float = math.inf,
) -> Verdict:
    """After the deadline, of the monotonic clock, no further fault comes."""
    verdict = Verdict(seed)
    with arena(kind, work) as found, Recorder(work / "history.jsonl") as recorder:
        left_out = [] if found.sabotage else [Kind.FSYNC, Kind.CLOCK]
        faults = draw(seed, kills=kills, cuts=cuts, left_out=left_out)
        faults = [each for each in faults if not only or each.kind in only]
        found.cluster.start()
        _create_topics(found, recorder)
        workers = all_workers(found.bootstrap, recorder, seed)
        for each in workers:
            each.start()
        try:
            await_progress(recorder, "the first start")
            _torment(found, recorder, faults, verdict, say, deadline_s)
            wait_until(found.is_whole, "all replicas are in sync at the end", HEAL_LIMIT_S)
        except AssertionError as error:
            recorder.complain(f"stuck: {error}")
        finally:
            end_all(workers, recorder)
        _judge(found, recorder, verdict, say)
    return verdict


def _create_topics(found: Arena, recorder: Recorder) -> None:
    topics = [
        NewTopic(name=LOG, partitions=LOG_PARTITIONS, replication_factor=3, configs={}),
        NewTopic(
            name=TABLE,
            partitions=TABLE_PARTITIONS,
            replication_factor=3,
            configs=TABLE_CONFIGS,
        ),
    ]
    with our_client(found.bootstrap, "creator") as client:
        for each in topics:
            create_topic(client, each)
    recorder.topic(LOG)
    recorder.topic(TABLE, compacted=True)
    wait_until(found.is_whole, "all replicas are in sync", HEAL_LIMIT_S)


def all_workers(bootstrap: str, recorder: Recorder, seed: int) -> list[Worker]:
    return [
        OurAppender("our-appender", bootstrap, recorder, seed),
        ConfluentAppender("confluent-appender", bootstrap, recorder, seed),
        OurTransactions("our-transactions", bootstrap, recorder, seed),
        ConfluentTransactions("confluent-transactions", bootstrap, recorder, seed),
        OurReader("our-reader", bootstrap, recorder, seed),
        ConfluentReader("confluent-reader", bootstrap, recorder, seed),
        OurCommitter("our-committer", bootstrap, recorder, seed),
        ConfluentMember("member-1", bootstrap, recorder, seed),
        ConfluentMember("member-2", bootstrap, recorder, seed),
    ]


def _torment(
    found: Arena,
    recorder: Recorder,
    faults: Sequence[Fault],
    verdict: Verdict,
    say: Say,
    deadline_s: float,
) -> None:
    acts = Acts(found)
    for number, fault in enumerate(faults, 1):
        if time.monotonic() > deadline_s:
            return
        recorder.begin_gap()
        done = acts.perform(fault)
        verdict.kills += fault.kills
        verdict.cuts += fault.cuts
        verdict.faults[fault.kind] += 1
        if ended := found.restart_if_ended():
            recorder.complain(f"nodes {ended} ended by themselves in {fault.kind.value}")
        await_progress(recorder, fault.kind.value)
        if fault.heals_fully:
            wait_until(found.is_whole, f"replicas are in sync after {done}", HEAL_LIMIT_S)
        verdict.gaps_ms.append((fault.kind, recorder.longest_gap_ms))
        say(
            f"{number}/{len(faults)} {fault.kind.value}: {done};"
            f" {recorder.acked} acked, gap {recorder.longest_gap_ms / 1000:.1f} s"
        )


def await_progress(recorder: Recorder, after: str) -> None:
    wanted = recorder.acked + PROGRESS_RECORDS
    wait_until(
        lambda: recorder.acked >= wanted,
        f"records are acknowledged after {after}",
        PROGRESS_LIMIT_S,
    )


def end_all(workers: Sequence[Worker], recorder: Recorder) -> None:
    for each in workers:
        each.end()
    deadline = time.monotonic() + END_LIMIT_S
    for each in workers:
        each.join(max(0.0, deadline - time.monotonic()))
        if each.is_alive():
            recorder.complain(f"{each.name} did not end")


def _judge(found: Arena, recorder: Recorder, verdict: Verdict, say: Say) -> None:
    try:
        ends = read_through_clients(found.bootstrap, recorder)
    except Exception as error:  # noqa: BLE001
        recorder.complain(f"the logs cannot be read: {type(error).__name__}: {error}")
        ends = {}
    found.cluster.kill()
    if ends:
        nodes = list(found.cluster.nodes.values())
        read_replicas(nodes, recorder, ends)
        compare_files(nodes, recorder, ends)
    say("judging")
    for each in check(recorder.history):
        verdict.anomalies[each.kind] += 1
        verdict.texts.append(str(each))
    for complaint in recorder.complaints:
        verdict.anomalies["complaint of the driver"] += 1
        verdict.texts.append(complaint)
    verdict.counts = recorder.counts
