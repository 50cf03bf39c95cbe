"""Our side of the Spark process, and the content of its tables. Shell."""

import contextlib
import importlib.util
import json
import selectors
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ledgerstone.demo.broker_process import end_of, end_process, own_environment
from ledgerstone.demo.encoding import TreeRow
from ledgerstone.demo.errors import DemoFailed

# A first start on a busy machine; the archive of classes is made when the first session ends.
ANSWER_TIMEOUT_S: Final = 300.0
STOP_TIMEOUT_S: Final = 120.0
# What the extra brings along that nothing else does.
_NEEDED: Final = ("pyspark", "pyarrow", "yaml")


def missing_for_spark() -> list[str]:
    return [name for name in _NEEDED if importlib.util.find_spec(name) is None]


@contextlib.contextmanager
def spark_tables(directory: Path, *, keep_classes: bool) -> Iterator["SparkTables"]:
    """Starts the process without waiting; it and its children end with the context.

    `keep_classes`: its JVM writes a class archive as it ends, if there is none."""
    log = directory / "spark.log"
    # A killed process leaves files here; they are removed with the directory.
    temporary = directory / "spark"
    temporary.mkdir()
    command = [sys.executable, "-m", "ledgerstone.demo.table_worker", str(directory)]
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [*command, "--keep-classes"] if keep_classes else command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**own_environment(), "TMPDIR": str(temporary)},
            start_new_session=True,
        )
    tables = SparkTables(process, directory, log)
    try:
        yield tables
    except BaseException:
        tables.close(patience_s=0)
        raise
    finally:
        tables.close()


class SparkTables:
    """Questions and answers, one at a time."""

    def __init__(self, process: subprocess.Popen[bytes], directory: Path, log: Path) -> None:
        self._process = process
        self._log = log
        self.database = directory / "tables.db"

    def wait(self) -> None:
        self._answer("the start of Spark")

    def run(self, definition: dict[str, Any]) -> dict[str, Any]:
        return self._ask("run", definition=definition)

    def verify(self, definition: dict[str, Any]) -> dict[str, Any]:
        return self._ask("verify", definition=definition)

    def purge(self, definition: dict[str, Any], key: bytes) -> list[tuple[str, str, str]]:
        found = self._ask("purge", definition=definition, key=key.hex())["findings"]
        return [(output, verdict, evidence) for output, verdict, evidence in found]

    def no_more(self) -> None:
        """Lets the process end in the background."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def close(self, patience_s: float = STOP_TIMEOUT_S) -> None:
        """Acts only once: the id of an ended process may belong to another."""
        assert self._process.stdout is not None
        if self._process.stdout.closed:
            return
        self.no_more()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience_s)
        end_process(self._process, 0)
        self._process.stdout.close()

    def _ask(self, what: str, **content: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        line = json.dumps({"do": what, **content}).encode() + b"\n"
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise DemoFailed(f"the Spark process has ended: {end_of(self._log)}") from error
        return self._answer(f"`{what}` of the table")

    def _answer(self, what: str) -> dict[str, Any]:
        line = self._line(what)
        if not line.endswith(b"\n"):
            raise DemoFailed(f"{what}: the Spark process has ended: {end_of(self._log)}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer and answer["error"] is not None:
            raise DemoFailed(f"{what}: {answer['error']}")
        return answer

    def _line(self, what: str) -> bytes:
        """One line, or a part of it if the process ends."""
        output = self._process.stdout
        assert output is not None
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            if not selector.select(ANSWER_TIMEOUT_S):
                raise DemoFailed(f"{what}: no answer from Spark after {ANSWER_TIMEOUT_S:.0f} s")
        return output.readline()


# -- what is in the tables ------------------------------------------------------------------------


def tree_rows(database: Path) -> list[TreeRow]:
    """The columns as the pipeline decoded them; the path's bytes, since it need not be text."""
    with contextlib.closing(sqlite3.connect(database)) as db:
        found = db.execute("SELECT _key, mode, blob, size FROM files")
        return [TreeRow(*row) for row in found]


def largest_files(database: Path, count: int) -> list[tuple[str, int, int, str]]:
    with contextlib.closing(sqlite3.connect(database)) as db:
        found = db.execute(
            'SELECT _key, size, author, "commit" FROM files ORDER BY size DESC, _key LIMIT ?',
            (count,),
        )
        return [
            (path.decode("utf-8", "replace"), size or 0, author, commit)
            for path, size, author, commit in found
        ]


def count_author(database: Path, key: bytes) -> int:
    with contextlib.closing(sqlite3.connect(database)) as db:
        row = db.execute("SELECT count(*) FROM authors WHERE _key = ?", (key,)).fetchone()
    return int(row[0])
