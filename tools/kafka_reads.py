"""Asks Apache Kafka's own dump tool to read partition directories, ours included.

    python tools/kafka_reads.py [--cache DIR] [--json] DIRECTORY...

Prints what the tool complains about and exits with 1 if it complained. `read` gives the parsed
structures to tests. See golden/kafka_tools.py for what the dump tool shows and hides: keys,
values and header values are exact bytes here, because helper classes print them in hex.

One reading starts four JVMs (dump, two index checks, headers) for all directories together, so
give it many directories at once. It works on copies.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from golden.kafka_tools import PartitionDump, default_cache, fetch_jars, read_partitions


def read(directories: Sequence[Path], cache: Path | None = None) -> list[PartitionDump]:
    """What Kafka reads in each directory, in the order given."""
    return read_partitions(fetch_jars(cache), directories)


def problems_of(dump: PartitionDump) -> list[str]:
    """Complaints of the tool, and offsets that do not rise from batch to batch."""
    found = list(dump.problems)
    batches = dump.batches
    for before, after in itertools.pairwise(batches):
        if after.base_offset <= before.last_offset:
            found.append(f"batch {after.base_offset} follows last offset {before.last_offset}")
    return found


def _as_json(dump: PartitionDump) -> str:
    def plain(value: object) -> object:
        return value.hex() if isinstance(value, bytes) else str(value)

    files = {name: dataclasses.asdict(file) for name, file in dump.files.items()}
    return json.dumps({"directory": dump.directory.name, "files": files}, default=plain)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Let Kafka's dump tool read partitions.")
    parser.add_argument("directories", nargs="+", type=Path)
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where jars are kept")
    parser.add_argument("--json", action="store_true", help="print what was read, bytes in hex")
    options = parser.parse_args(arguments)

    troubled = False
    for dump in read(options.directories, options.cache):
        problems = problems_of(dump)
        troubled = troubled or bool(problems)
        if options.json:
            sys.stdout.write(_as_json(dump) + "\n")
        for problem in problems:
            sys.stderr.write(f"{dump.directory.name}: {problem}\n")
        if not problems:
            records = sum(batch.count for batch in dump.batches)
            text = f"{len(dump.files)} files, {len(dump.batches)} batches, {records} records"
            sys.stderr.write(f"{dump.directory.name}: {text}, nothing to complain about\n")
    return 1 if troubled else 0


if __name__ == "__main__":
    sys.exit(main())
