"""An erased key in what pipelines wrote: found wherever it lies, gone after a purge."""

import errno
import gzip
import http.server
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import fastavro
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledgerstone.erasure.erasure import ScanOutcome
from ledgerstone.erasure.verifiers import VerifierQuestion
from ledgerstone.pipeline import erasing
from ledgerstone.pipeline.changes import one_per_key
from ledgerstone.pipeline.definition import Deletes, Format, Pipeline
from ledgerstone.pipeline.erasing import purge, report, search
from ledgerstone.pipeline.erasing_files import FileVerdict, Finding, holds_bytes, search_directory
from ledgerstone.pipeline.erasing_key import WantedKey
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.status import held
from ledgerstone.pipeline.tables.leaves import Incoming
from ledgerstone.pipeline.tables.opening import open_target
from ledgerstone.pipeline.verifying import verifier
from ledgerstone.server.effects import AskVerifier
from ledgerstone.server.erasing.verifiers import Verifiers
from tests.kit.table_model import Record, changes_of, positions_after, text_pipeline

KEY = b"someone@example.com"
TARGETS = ("sqlite", "parquet", "delta", "postgres")


@pytest.fixture
def location(request: pytest.FixtureRequest, tmp_path: Path, target: str) -> str:
    if target == "postgres":
        return str(request.getfixturevalue("postgres"))
    return str(tmp_path / "table")


def pipeline_at(tmp_path: Path, target: str, location: str, deletes: str = "hard") -> Pipeline:
    return replace(text_pipeline(target, location, deletes), work=str(tmp_path / "work"))


def apply(pipeline: Pipeline, *records: Record) -> None:
    table = open_target(pipeline)
    try:
        table.prepare()
        changes = changes_of(pipeline, list(records))
        if pipeline.target.deletes is not Deletes.HISTORY:
            changes = one_per_key(changes, pipeline.key_names)
        table.apply(changes, positions_after(changes))
    finally:
        table.close()


def written(pipeline: Pipeline) -> None:
    others = [Record(0, n, b"other-%04d@example.com" % n, b"x", 1_000 + n) for n in range(50)]
    apply(pipeline, Record(0, 100, KEY, b"personal", 5_000), *others)


def table_finding(found: list[Finding]) -> Finding:
    assert KEY.decode() not in repr(found)
    return found[0]


@pytest.mark.parametrize("target", TARGETS)
def test_a_live_row_is_found(tmp_path: Path, target: str, location: str) -> None:
    pipeline = pipeline_at(tmp_path, target, location)
    written(pipeline)

    found = search(pipeline, KEY)

    assert table_finding(found).verdict is FileVerdict.RESIDUE


@pytest.mark.parametrize("deletes", ["hard", "soft", "history"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_purge_leaves_nothing_of_a_deleted_row(
    tmp_path: Path, target: str, location: str, deletes: str
) -> None:
    pipeline = pipeline_at(tmp_path, target, location, deletes)
    written(pipeline)
    apply(pipeline, Record(0, 101, KEY, None, 6_000))

    left = purge(pipeline, KEY)

    assert [each.verdict for each in left] == [FileVerdict.CLEAN, FileVerdict.CLEAN], left
    other = search(pipeline, b"other-0007@example.com")
    assert table_finding(other).verdict is FileVerdict.RESIDUE
    table = open_target(pipeline)
    table.prepare()
    positions = table.positions()
    table.close()
    assert positions == {0: 102}


@pytest.mark.parametrize("target", ["delta", "postgres"])
def test_a_delete_alone_leaves_old_files_or_dead_rows(
    tmp_path: Path, target: str, location: str
) -> None:
    pipeline = pipeline_at(tmp_path, target, location)
    written(pipeline)
    apply(pipeline, Record(0, 101, KEY, None, 6_000))

    found = search(pipeline, KEY)

    assert table_finding(found).verdict is FileVerdict.RESIDUE


@pytest.mark.parametrize("target", ["sqlite", "parquet"])
def test_a_delete_is_enough_where_files_are_rewritten(
    tmp_path: Path, target: str, location: str
) -> None:
    pipeline = pipeline_at(tmp_path, target, location)
    written(pipeline)
    apply(pipeline, Record(0, 101, KEY, None, 6_000))

    found = purge(pipeline, KEY)

    assert table_finding(found).verdict is FileVerdict.CLEAN


def test_statistics_in_deltas_log_are_found_after_the_files_are_gone(tmp_path: Path) -> None:
    pipeline = pipeline_at(tmp_path, "delta", str(tmp_path / "table"))
    written(pipeline)

    from deltalake import DeltaTable

    # Our own commits have no statistics; those of other writers do.
    DeltaTable(pipeline.target.location).update(updates={"said": "'by another'"})
    apply(pipeline, Record(0, 101, KEY, None, 6_000))
    table = DeltaTable(pipeline.target.location)
    table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    found = table_finding(search(pipeline, KEY))

    assert found.verdict is FileVerdict.RESIDUE
    assert "_delta_log" in found.evidence
    assert ".parquet" not in found.evidence


@pytest.mark.parametrize("target", ["postgres"])
def test_dead_rows_that_may_not_be_looked_for_are_unknown(tmp_path: Path, location: str) -> None:
    pipeline = pipeline_at(tmp_path, "postgres", location)
    written(pipeline)
    apply(pipeline, Record(0, 101, KEY, None, 6_000))
    with psycopg.connect(location, autocommit=True) as db:
        db.execute("DROP ROLE IF EXISTS nobody_special")
        db.execute("CREATE ROLE nobody_special LOGIN")
        db.execute("GRANT ALL ON SCHEMA public TO nobody_special")
        db.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO nobody_special")
    limited = location.replace("//postgres:@", "//nobody_special:@")

    found = search(replace(pipeline, target=replace(pipeline.target, location=limited)), KEY)

    assert table_finding(found).verdict is FileVerdict.UNKNOWN
    assert "superuser" in found[0].evidence


def test_a_key_in_avro_is_taken_apart_by_the_schema_a_registry_has_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = {"type": "record", "name": "k", "fields": [{"name": "id", "type": "string"}]}
    parsed = fastavro.parse_schema(schema)
    monkeypatch.setattr(erasing, "registered_schema", lambda registry, number: parsed)
    pipeline = pipeline_at(tmp_path, "sqlite", str(tmp_path / "table"))
    written(pipeline)
    in_avro = replace(pipeline.key, format=Format.AVRO, registry="http://registry")
    columns = (replace(pipeline.key.columns[0], path=("id",)),)
    pipeline = replace(pipeline, key=replace(in_avro, columns=columns))

    found = search(pipeline, b"\0\0\0\0\x07" + bytes([2 * len(KEY)]) + KEY)

    assert table_finding(found).verdict is FileVerdict.RESIDUE


WANTED = WantedKey(raw=KEY, columns={"id": KEY.decode()})


def test_files_of_every_kind_are_looked_into(tmp_path: Path) -> None:
    (tmp_path / "plain.bin").write_bytes(b"\x00" * 100 + KEY)
    (tmp_path / "offsets").write_text('{"topic":{"0":5}}')
    (tmp_path / "state.json").write_text(json.dumps({"last": KEY.decode()}))
    pq.write_table(pa.table({"_key": [b"x", KEY]}), tmp_path / "snapshot.parquet")
    with zipfile.ZipFile(tmp_path / "state.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("MANIFEST", KEY)

    found = search_directory(tmp_path, WANTED)

    assert found.hits == ["plain.bin", "snapshot.parquet", "state.json", "state.zip"]
    assert not found.closed


def test_what_cannot_be_read_is_unknown_and_not_clean(tmp_path: Path) -> None:
    (tmp_path / "000012.sst").write_bytes(b"compressed")
    (tmp_path / "log.gz").write_bytes(gzip.compress(KEY))
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    with zipfile.ZipFile(tmp_path / "state.zip", "w") as archive:
        archive.writestr("000013.sst", b"compressed")

    finding = search_directory(tmp_path, WANTED).finding("files")

    assert finding.verdict is FileVerdict.UNKNOWN
    assert "4 files cannot be read" in finding.evidence


def test_a_directory_that_cannot_be_listed_is_unknown_and_not_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, elsewhere = tmp_path / "work" / "closed", tmp_path / "elsewhere"
    closed.mkdir(parents=True)
    elsewhere.mkdir()
    (closed.parent / "linked").symlink_to(elsewhere)
    for directory in (closed, elsewhere):
        (directory / "dump").write_bytes(KEY)
    scandir = os.scandir

    def refusing(path: str) -> Iterator[os.DirEntry[str]]:
        if str(path) == str(closed):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)

    searched = search_directory(closed.parent, WantedKey(raw=KEY, columns={}))

    assert sorted(searched.closed) == ["closed", "linked"]
    assert searched.finding("files").verdict is FileVerdict.UNKNOWN


def test_a_damaged_file_is_unknown_and_ends_no_search(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / "00000000000000000000.json").write_text('{"add": {"path": "part')
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata", b"some text " * 100)
    content = bytearray((tmp_path / "a.zip").read_bytes())
    content[40:50] = b"\xff" * 10
    (tmp_path / "a.zip").write_bytes(content)
    (tmp_path / "found").write_bytes(KEY)

    searched = search_directory(tmp_path, WantedKey(raw=KEY, columns={}))

    assert searched.hits == ["found"]
    assert sorted(searched.closed) == ["_delta_log/00000000000000000000.json", "a.zip"]


def test_a_key_too_short_to_search_for_is_not_called_gone(tmp_path: Path) -> None:
    (tmp_path / "some.bin").write_bytes(b"7")

    finding = search_directory(tmp_path, WantedKey(raw=b"7", columns={"id": "7"})).finding("files")

    assert finding.verdict is FileVerdict.UNKNOWN


def test_a_needle_across_two_blocks_is_found() -> None:
    assert holds_bytes(iter([b"xxsome", b"one@ex", b"ample.com"]), [KEY])
    assert not holds_bytes(iter([b"xxsome", b"ONE@ex", b"ample.com"]), [KEY])


def test_a_target_that_cannot_be_reached_is_unknown(tmp_path: Path) -> None:
    pipeline = pipeline_at(tmp_path, "postgres", "host=127.0.0.1 port=1 connect_timeout=1")

    found = table_finding(search(pipeline, KEY))

    assert found.verdict is FileVerdict.UNKNOWN
    assert "port=1" not in found.output + found.evidence


def definition_in(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "name: users\nsource: {topic: users}\nkey: {format: string, column: id}\n"
        "value: {format: string, column: text}\ntable: {type: sqlite, path: users.db}\n"
    )
    return path


def question(topic: str, key: bytes | None) -> VerifierQuestion:
    return VerifierQuestion(
        erasure_id="ER-1", topic=topic, key_hmac=bytes(32), key=key, tombstones=()
    )


class Point(NamedTuple):
    name: str
    load: Callable[[], object]


def test_a_broker_can_ask_for_the_pipelines_of_a_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGERSTONE_PIPELINES", str(definition_in(tmp_path)))
    point = Point("pipelines", lambda: verifier)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: (point,))
    asking = Verifiers()

    known = asking.ask(AskVerifier("pipelines", question("users", KEY)))
    keyless = asking.ask(AskVerifier("pipelines", question("users", None)))
    other = asking.ask(AskVerifier("pipelines", question("orders", KEY)))

    assert isinstance(known, list)
    assert [word.outcome for word in known] == [ScanOutcome.CLEAN, ScanOutcome.CLEAN]
    # No word, so that the receipt waits for what a purge finds.
    assert keyless == "it failed with KeyNotGiven"
    assert isinstance(other, list)
    assert [(word.outcome, word.evidence) for word in other] == [
        (ScanOutcome.CLEAN, "none of 1 pipelines here reads the topic")
    ]


def test_a_broker_without_pipelines_waits_for_no_word_about_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LEDGERSTONE_PIPELINES", raising=False)
    point = Point("pipelines", lambda: verifier)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: (point,))

    names = Verifiers().names()

    assert names == ()


def test_what_a_broker_loads_to_ask_needs_neither_arrow_nor_spark() -> None:
    program = (
        "import sys, ledgerstone.pipeline.verifying as plugin; plugin.verifier(); "
        "print([name for name in ('pyarrow', 'pyspark', 'numpy') if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


@dataclass(slots=True)
class Api:
    address: str
    posted: list[tuple[str, dict[str, object]]]
    status: int = 200


@pytest.fixture
def api() -> Iterator[Api]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.posted.append((self.path, json.loads(body)))
            self.send_response(made.status)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    made = Api(f"127.0.0.1:{server.server_port}", [])
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def test_findings_become_evidence_of_the_erasure(api: Api) -> None:
    finding = Finding(output="sqlite:users.db", verdict=FileVerdict.CLEAN, evidence="0 rows")

    told = report(api.address, "ER/1", [finding], verifier="pipelines", group="people")

    word = {"output": "sqlite:users.db", "verdict": "clean", "evidence": "0 rows"}
    body = {"verifier": "pipelines", "group": "people", "words": [word]}
    assert api.posted == [("/api/v1/erasures/ER%2F1/evidence", body)]
    assert not told.has_receipt


def test_a_refused_report_is_an_error(api: Api) -> None:
    api.status = 404
    finding = Finding(output="o", verdict=FileVerdict.CLEAN, evidence="e")

    with pytest.raises(PipelineError, match="ER-1: 404"):
        report(api.address, "ER-1", [finding], verifier="pipelines", group="people")


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_batch_left_behind_is_found_and_purged(
    tmp_path: Path, location: str, target: str
) -> None:
    pipeline = pipeline_at(tmp_path, target, location)
    apply(pipeline, Record(0, 0, b"other@example.com", b"v", 1))
    table = open_target(pipeline)
    # As a task does whose driver dies before the commit.
    changes = changes_of(pipeline, [Record(0, 1, KEY, b"v", 2)])
    sink = table.stage(Incoming(1, 1)).open()
    sink.add(changes)
    sink.finish()
    table.close()

    before = {each.verdict for each in search(pipeline, KEY)}
    after = purge(pipeline, KEY)

    assert FileVerdict.RESIDUE in before
    assert {each.verdict for each in after} == {FileVerdict.CLEAN}, after


def test_purge_is_refused_while_the_pipeline_runs(tmp_path: Path) -> None:
    pipeline = pipeline_at(tmp_path, "sqlite", str(tmp_path / "table"))

    with (
        held(Path(pipeline.work)),
        pytest.raises(PipelineError, match="another process works on this pipeline"),
    ):
        purge(pipeline, KEY)
