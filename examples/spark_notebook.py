"""Spark and Ledgerstone cell by cell: write a topic, read it, fold it, let a table follow it.

    python examples/spark_notebook.py [BOOTSTRAP]

Each `# %%` begins a cell for editors and notebooks that support them; as a program it runs from top
to bottom. Without an address it starts its own broker. Exits with an error if the table does not
match the topic.
"""

# %% A broker, unless one is given
import atexit
import contextlib
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import ledgerstone.spark
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.pipeline.connecting import connect_to
from ledgerstone.pipeline.definition_files import define
from ledgerstone.pipeline.runner import PipelineRun

closing = contextlib.ExitStack()
directory = Path(closing.enter_context(tempfile.TemporaryDirectory()))
# Registered last: the temporary directory is removed at exit too, and the broker has to stop first.
atexit.register(closing.close)


def start_broker() -> str:
    ready = directory / "ready.json"
    command = [sys.executable, "-m", "ledgerstone", "up", "--data", str(directory / "data")]
    command += ["--listen", "127.0.0.1:0", "--ready-file", str(ready), "--log-level", "error"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    closing.callback(process.wait, timeout=60)
    closing.callback(process.terminate)
    while not ready.exists():
        if process.poll() is not None:
            raise SystemExit("the broker did not start")
        time.sleep(0.01)
    return str(json.loads(ready.read_text())["bootstrap"])


bootstrap = sys.argv[1] if len(sys.argv) > 1 else start_broker()
topic = f"people-{uuid.uuid4().hex[:8]}"
with connect_to(bootstrap) as client:
    create_topic(client, NewTopic(name=topic, partitions=2, configs={"cleanup.policy": "compact"}))

# %% A session: local, quiet, with its own Java if the machine has none
spark = ledgerstone.spark.session("notebook", master="local[2]")


def write(rows: list[tuple[str, str | None]]) -> None:
    """A null value is written as a tombstone."""
    frame = spark.createDataFrame(rows, "key string, value string")
    options = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    frame.coalesce(1).write.format("ledgerstone").options(**options).mode("append").save()


write(
    [
        ("ann", '{"name": "Ann", "age": 31}'),
        ("bob", '{"name": "Bob", "age": 45}'),
        ("cyd", '{"name": "Cyd", "age": 27}'),
        ("ann", '{"name": "Ann", "age": 32}'),
    ]
)

# %% Every record, as it is in the log
reader = spark.read.format("ledgerstone").option("kafka.bootstrap.servers", bootstrap)
records = reader.option("subscribe", topic).load()
records.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "partition", "offset").show()

# %% The state: the latest value of each live key. No shuffle, no window
people = reader.option("subscribe", topic).option("fold", "latest").load()
people.selectExpr(
    "CAST(key AS STRING) AS id", "from_json(CAST(value AS STRING), 'age INT').age AS age"
).show()

# %% A table that follows the topic
pipeline = define(
    {
        "name": "people",
        "source": {"topic": topic, "bootstrap": bootstrap},
        "key": {"format": "string", "column": "id"},
        "value": {"format": "json", "columns": {"name": "string", "age": "int64"}},
        "table": {"type": "sqlite", "path": str(directory / "people.db")},
        "work": str(directory / "work"),
    },
    directory=directory,
)


def follow() -> list[tuple[str, int]]:
    """Applies new records; returns the rows afterwards."""
    PipelineRun(pipeline, spark, once=True).run()
    with sqlite3.connect(directory / "people.db") as database:
        return list(database.execute("SELECT id, age FROM people ORDER BY id"))


rows = follow()
print("the table:", rows)
assert rows == [("ann", 32), ("bob", 45), ("cyd", 27)], rows

# %% A delete goes where the data went
write([("bob", None)])
rows = follow()
print("after a tombstone for bob:", rows)
assert rows == [("ann", 32), ("cyd", 27)], rows

# %% Clean up
spark.stop()
closing.close()
