"""A table of the latest value of each key, as one writes it with Spark's own connector. Shell.

Records since the last time are read, folded by `max_by`, parsed, and laid over the table. In
Parquet there is no laying over: the table is read, folded with the change, and written anew. In
PostgreSQL the change goes to a staging table by JDBC, and MERGE does the rest.
"""

import json
import shutil
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json, struct
from pyspark.sql.functions import max_by as newest

VALUE: Final = "name string, age bigint"
_CREATE: Final = "CREATE TABLE IF NOT EXISTS {table} (id text PRIMARY KEY, name text, age bigint)"
_MERGE: Final = """
MERGE INTO {table} AS t USING {staging} AS s ON t.id = s.id
WHEN MATCHED AND s.deleted THEN DELETE
WHEN MATCHED THEN UPDATE SET name = s.name, age = s.age
WHEN NOT MATCHED AND NOT s.deleted THEN INSERT (id, name, age) VALUES (s.id, s.name, s.age)
"""


class LatestBySpark:
    def __init__(self, bootstrap: str, directory: Path, postgres: str) -> None:
        self._bootstrap, self._directory, self._postgres = bootstrap, directory, postgres
        self._ends: dict[tuple[str, str], dict[str, int]] = {}

    def load(self, spark: SparkSession, kind: str, topic: str) -> None:
        self._ends.pop((kind, topic), None)
        changes = self._changes(spark, kind, topic)
        if kind == "parquet":
            self._write(changes.where("NOT deleted").drop("deleted"), topic)
        else:
            self._into_postgres(changes, topic)

    def merge(self, spark: SparkSession, kind: str, topic: str) -> None:
        changes = self._changes(spark, kind, topic)
        if kind == "postgres":
            self._into_postgres(changes, topic)
            return
        table = spark.read.parquet(str(self._directory / topic))
        untouched = table.join(changes, "id", "left_anti")
        self._write(untouched.unionByName(changes.where("NOT deleted").drop("deleted")), topic)

    def _changes(self, spark: SparkSession, kind: str, topic: str) -> DataFrame:
        """The newest record of each key since the last call, with columns."""
        begin = self._ends.get((kind, topic))
        begins = "earliest" if begin is None else json.dumps({topic: begin})
        options = {"kafka.bootstrap.servers": self._bootstrap, "subscribe": topic}
        reader = spark.read.format("kafka").options(**options)
        frame = reader.option("startingOffsets", begins).load()
        # Spark does not tell where a batch ended; the largest offsets do.
        ends = frame.groupBy("partition").agg({"offset": "max"}).collect()
        known = dict(begin or {})
        known.update({str(row[0]): row[1] + 1 for row in ends})
        self._ends[kind, topic] = known
        latest = frame.groupBy("key").agg(
            newest(struct("value", "offset"), col("offset")).alias("latest")
        )
        parsed = from_json(col("latest.value").cast("string"), VALUE)
        return latest.select(
            col("key").cast("string").alias("id"),
            parsed.alias("value"),
            col("latest.value").isNull().alias("deleted"),
        ).selectExpr("id", "value.name", "value.age", "deleted")

    def _write(self, rows: DataFrame, topic: str) -> None:
        """Beside the table that is being read, then in its place."""
        place = self._directory / topic
        fresh = place.with_suffix(".new")
        rows.write.mode("overwrite").parquet(str(fresh))
        shutil.rmtree(place, ignore_errors=True)
        fresh.rename(place)

    def _into_postgres(self, changes: DataFrame, topic: str) -> None:
        table = "peer_" + topic.replace("-", "_")
        staging = f"{table}_staging"
        parts = urlsplit(self._postgres)
        url = f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}"
        properties = {"driver": "org.postgresql.Driver", "user": parts.username or ""}
        changes.write.jdbc(url, staging, mode="overwrite", properties=properties)
        with psycopg.connect(self._postgres) as connection:
            connection.execute(_CREATE.format(table=table))
            connection.execute(_MERGE.format(table=table, staging=staging))
            connection.execute(f"DROP TABLE {staging}")
