"""A partition's log from its first batch to its files: write, delete a key, roll, stop, read back.

    python examples/first_log.py [DIRECTORY]

Without a directory a temporary one is used. The files are Kafka's: any tool that reads a Kafka log
directory reads this one, and `ledgerstone dump` shows what is in it.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ledgerstone.records.batch import iter_headers
from ledgerstone.records.builder import build_batch
from ledgerstone.records.record import iter_records
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import open_log_dir
from ledgerstone.storage.log_reader import read
from ledgerstone.system import OsFilesystem, SystemClock, SystemDice
from ledgerstone.types import TopicPartition

CUSTOMERS = TopicPartition("customers", 0)
CONFIG = LogConfig(cleanup_policy=("compact",), index_interval_bytes=0)

# A value of None is a tombstone: it deletes the key.
HISTORY: list[tuple[str, str | None]] = [
    ("alice", '{"city": "Ulm"}'),
    ("bob", '{"city": "Bern"}'),
    ("alice", '{"city": "Graz"}'),
    ("carol", '{"city": "Pau"}'),
    ("bob", None),
]


def write(log: PartitionLog) -> None:
    for key, value in HISTORY:
        now_ms = int(time.time() * 1000)
        record = (now_ms, key.encode(), None if value is None else value.encode(), ())
        result = log.append_as_leader(build_batch([record]), leader_epoch=0)
        log.advance_high_watermark(log.log_end_offset)
        if result.last_offset == 2:
            log.roll()


def state(log: PartitionLog) -> dict[str, str]:
    """The latest value of each key, tombstones applied: what the log says now."""
    table: dict[str, str] = {}
    offset = log.log_start_offset
    while (piece := read(log, offset, max_bytes=1 << 20).slice) is not None:
        batches = piece.read()
        for position, header in iter_headers(batches):
            for record in iter_records(batches, position):
                key = (record.key or b"").decode()
                if record.value is None:
                    table.pop(key, None)
                else:
                    table[key] = record.value.decode()
            # The batch says where to go on; compaction may have removed its last record.
            offset = header.next_offset
    return table


def main(directory: Path) -> None:
    log_dir = open_log_dir(OsFilesystem(), SystemClock(), SystemDice(), str(directory))
    log = log_dir.create(CUSTOMERS, CONFIG)
    write(log)
    print(f"wrote {log.log_end_offset} records in {len(log.segments)} segments to {directory}\n")
    log_dir.close()

    reopened = open_log_dir(OsFilesystem(), SystemClock(), SystemDice(), str(directory))
    [log] = reopened.load(lambda _: CONFIG)
    print(f"after a restart the log says: {state(log)}")
    print("bob is deleted, yet on disk: his value and his tombstone, until the log is cleaned\n")
    reopened.close()
    dump = [sys.executable, "-m", "ledgerstone", "dump", "--records"]
    subprocess.run([*dump, str(directory / str(CUSTOMERS))], check=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
