"""The logs at the end: as clients read them, and in the files of each replica. Shell."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Final

from bench.nemesis.clients import all_places, id_of, log_places, our_client
from bench.nemesis.recorder import Recorder, now_ms
from ledgerstone.client.blocking import Client
from ledgerstone.client.consumer import records_of
from ledgerstone.client.fetcher import READ_COMMITTED, Fetcher
from ledgerstone.client.offsets import EARLIEST, LATEST, list_offsets
from ledgerstone.records.batch import read_header, verify_crc
from ledgerstone.records.record import iter_records
from ledgerstone.sim.history.operations import LogRead, Seen
from ledgerstone.types import TopicPartition
from tests.kit.broker import wait_until
from tests.kit.nodes import Node, batches

LIMIT_MS: Final = 60_000
# The time-out of a transaction is 20 s, and Kafka looks for such ones every 10 s.
TRANSACTIONS_LIMIT_S: Final = 75.0


def read_through_clients(bootstrap: str, recorder: Recorder) -> dict[TopicPartition, int]:
    """Committed records of every partition; the end of each."""
    ends = {}
    with our_client(bootstrap, "last-look", LIMIT_MS) as client:
        _await_transactions(client, recorder)
        for place in all_places():
            start_ms = now_ms()
            first = list_offsets(client, {place: EARLIEST})[place].offset
            end = list_offsets(client, {place: LATEST})[place].offset
            records: list[Seen] = []
            for fetched in Fetcher(client).read_range(place, first, end):
                records += (Seen(r.offset, id_of(r.value, r.headers)) for r in records_of(fetched))
            ends[place] = end
            recorder.note(
                LogRead(
                    client="last-look",
                    start_ms=start_ms,
                    end_ms=now_ms(),
                    place=place,
                    start_offset=first,
                    high_watermark=end,
                    records=tuple(records),
                    committed=True,
                )
            )
    return ends


def _await_transactions(client: Client, recorder: Recorder) -> None:
    """Until none is open: those whose producers have ended are aborted by their time-out."""
    latest = dict.fromkeys(all_places(), LATEST)

    def open_in() -> list[TopicPartition]:
        ends = list_offsets(client, latest)
        stable = list_offsets(client, latest, isolation_level=READ_COMMITTED)
        return [each for each in latest if stable[each].offset < ends[each].offset]

    try:
        wait_until(lambda: not open_in(), "no transaction is open", TRANSACTIONS_LIMIT_S)
    except AssertionError:
        recorder.complain(f"transactions hang in {', '.join(map(str, open_in()))}")


def read_replicas(
    nodes: Sequence[Node], recorder: Recorder, ends: dict[TopicPartition, int]
) -> None:
    """Each replica's files, aborted records too. Called while nothing runs."""
    now = now_ms()
    for node in nodes:
        for place, end in ends.items():
            recorder.note(
                LogRead(
                    client=f"files-{node.node_id}",
                    # Nothing changes any more: all of them are read at one moment.
                    start_ms=now,
                    end_ms=now,
                    place=place,
                    start_offset=_start(node, place),
                    high_watermark=end,
                    records=tuple(_seen(_directory(node, place), end)),
                    replica=node.node_id,
                )
            )


def compare_files(
    nodes: Sequence[Node], recorder: Recorder, ends: dict[TopicPartition, int]
) -> None:
    """Logs that are not compacted hold the same batches on every replica."""
    for place in log_places():
        logs = {node.node_id: dict(batches(_directory(node, place), ends[place])) for node in nodes}
        for one, other in combinations(logs, 2):
            unlike = [
                offset
                for offset in sorted(logs[one].keys() | logs[other].keys())
                if logs[one].get(offset) != logs[other].get(offset)
            ]
            if unlike:
                where = f"{place.topic}-{place.partition} on nodes {one} and {other}"
                recorder.complain(f"replicas differ: {where} at {unlike[:5]}")


def _directory(node: Node, place: TopicPartition) -> Path:
    return node.data / f"{place.topic}-{place.partition}"


def _start(node: Node, place: TopicPartition) -> int:
    segments = sorted(_directory(node, place).glob("*.log"))
    return int(segments[0].stem) if segments else 0


def _seen(directory: Path, end: int) -> Iterator[Seen]:
    for _, data in batches(directory, end):
        header = read_header(data)
        verify_crc(data, 0, header)
        if header.is_control or header.record_count == 0:
            continue
        for record in iter_records(memoryview(data)):
            if record.offset < end:
                yield Seen(record.offset, id_of(record.value, record.headers))
