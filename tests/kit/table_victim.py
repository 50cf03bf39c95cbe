"""A process that applies a story to a table and is killed on the way, again and again.

Run as a program, so that each kill hits a forked child of a process that has opened nothing yet.
The kill comes at the n-th call into C code of the child: the same n is the same place every time.
What the children report comes back through exit codes and a file.
"""

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.tables.opening import open_target
from tests.kit.table_model import (
    Record,
    changes_of,
    expected_rows,
    not_yet_applied,
    positions_after,
    table_rows,
    text_pipeline,
)

BATCH = 15


def story(seed: int, count: int = 90) -> list[Record]:
    """A key belongs to one partition; a third of the records are tombstones."""
    dice = random.Random(seed)
    next_offset = [0, 0, 0]
    records = []
    for step in range(count):
        number = dice.randrange(20)
        partition = number % 3
        value = None if dice.random() < 0.33 else f"v{step}".encode()
        offset = next_offset[partition]
        next_offset[partition] += dice.randint(1, 3)
        records.append(Record(partition, offset, f"k{number}".encode(), value, 1_000 * step + 1))
    return records


def follow(pipeline: Pipeline, records: list[Record]) -> None:
    """As a run does: from the start of the story; what the table has is left out."""
    with closing(open_target(pipeline)) as target:
        target.prepare()
        positions = target.positions()
        for start in range(0, len(records), BATCH):
            changes = changes_of(pipeline, records[start : start + BATCH])
            fresh = not_yet_applied(changes, positions)
            if fresh.num_rows:
                positions |= positions_after(fresh)
                target.apply(fresh, positions_after(fresh))


def in_child(work: Callable[[], None], *, kill_at: int | None, count_to: Path | None) -> int:
    """The wait status of a forked child that does `work`."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    calls = 0

    def count(_: FrameType, event: str, __: Any) -> None:
        nonlocal calls
        calls += event == "c_call"
        if calls == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    work()
    sys.setprofile(None)
    if count_to is not None:
        count_to.write_text(str(calls), encoding="utf-8")
    os._exit(0)


def main(arguments: dict[str, Any]) -> None:
    records = story(arguments["seed"])
    scratch = Path(arguments["scratch"])

    def pipeline(name: str) -> Pipeline:
        kind = arguments["kind"]
        is_shared = "://" in arguments["location"]
        location = arguments["location"] if is_shared else str(scratch / name)
        return text_pipeline(kind, location, arguments["deletes"], name=name, **arguments["table"])

    dry = in_child(
        lambda: follow(pipeline("dry"), records), kill_at=None, count_to=scratch / "calls"
    )
    assert dry == 0, f"the dry run ended with {dry}"
    total = int((scratch / "calls").read_text(encoding="utf-8"))
    dice = random.Random(arguments["seed"])
    killed = 0
    for _ in range(arguments["kills"]):
        # A child that resumes in the middle has less to do, so early calls are hit more often.
        at = dice.randrange(1, max(2, int(total * dice.random() ** 2)))
        status = in_child(lambda: follow(pipeline("table"), records), kill_at=at, count_to=None)
        killed += status == signal.SIGKILL
        assert status in (0, signal.SIGKILL), f"a child ended with {status}"
    follow(pipeline("table"), records)
    with closing(open_target(pipeline("table"))) as target:
        target.prepare()
        found = table_rows(target.rows())
    expected = expected_rows(records, pipeline("table").target.deletes)
    same = found == expected
    print(json.dumps({"killed": killed, "same": same, "rows": len(found)}), flush=True)  # noqa: T201
    # Some libraries of tables keep threads that they forget to join when the interpreter ends, and
    # now and then that aborts the process. There is nothing left to do here.
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
