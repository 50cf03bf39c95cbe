"""`ledgerstone dump` as a user meets it: lines, JSON, exit codes, and data that means harm."""

import dataclasses
import json
import os
import re
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import ledgerstone
from ledgerstone.cli import dump as command
from ledgerstone.cli.dump_metadata import MetadataFacts
from ledgerstone.cli.dump_transactions import TransactionFacts
from ledgerstone.cli.main import app, main
from ledgerstone.cli.output import show_bytes, show_time
from ledgerstone.errors import KernelBuildFailed
from ledgerstone.records.builder import RecordParts, build_batch
from ledgerstone.records.control import end_txn_marker
from ledgerstone.storage.dump import Fact
from ledgerstone.system import ReadOnlyFilesystem

T = 1_700_000_000_000
HORIZON = T + 86_401_000
NAME = f"{0:020d}.log"
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "dump.md"
HOSTILE = [
    b"\x1b]0;owned\x07",
    b"\x1b[2J\x1b[31mred",
    "right\u202eleft".encode(),
    "\x9b31m".encode(),
    b"\xff\xfe[bold]",
    b"nul\x00byte",
]


def run(*arguments: str, color: bool = False) -> Result:
    env = {"FORCE_COLOR": "1" if color else None, "TERM": "xterm", "NO_COLOR": None}
    return CliRunner().invoke(app, ["dump", *arguments], env=env)


def lines_of(result: Result) -> list[str]:
    return result.stdout.splitlines()


def objects_of(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines_of(result)]


def log_of(directory: Path, *batches: bytes | bytearray) -> str:
    path = directory / NAME
    path.write_bytes(b"".join(batches))
    return str(path)


def pair(key: bytes | None, value: bytes | None) -> RecordParts:
    return T, key, value, ()


def test_batch_line_tells_all_that_is_in_the_header(tmp_path: Path) -> None:
    batch = build_batch(
        [pair(b"a", None), pair(b"b", b"1")],
        leader_epoch=3,
        producer_id=42,
        producer_epoch=1,
        base_sequence=5,
        transactional=True,
        delete_horizon_ms=HORIZON,
    )

    result = run(log_of(tmp_path, batch))

    assert result.exit_code == 0
    assert lines_of(result)[1] == (
        f"  batch position=0 offsets=0-1 records=2 bytes={len(batch)} codec=none"
        " max_time=2023-11-14T22:13:20.000Z leader_epoch=3 producer=42/1 sequence=5-6"
        " transactional tombstones=1 delete_horizon=2023-11-15T22:13:21.000Z"
    )


def test_marker_line_tells_the_decision(tmp_path: Path) -> None:
    marker = end_txn_marker(
        commit=False, producer_id=42, producer_epoch=1, coordinator_epoch=9, timestamp=T
    )

    (_, line, _) = lines_of(run(log_of(tmp_path, marker)))

    assert line.endswith(" transactional control=ABORT coordinator_epoch=9")


def test_record_lines_mark_tombstones_and_show_headers(tmp_path: Path) -> None:
    records: list[RecordParts] = [
        (T, b"k", None, [("why", b"erased"), ("n", None)]),
        (T + 1, None, b"", ()),
        (T + 2, b"\x00\xff", b'say "hi"\n', ()),
    ]

    result = run("--records", log_of(tmp_path, build_batch(records)))

    assert lines_of(result)[2:5] == [
        '    record offset=0 time=2023-11-14T22:13:20.000Z key="k" TOMBSTONE'
        ' headers={"why": "erased", "n": null}',
        '    record offset=1 time=2023-11-14T22:13:20.001Z key=null value=""',
        '    record offset=2 time=2023-11-14T22:13:20.002Z key=0x00ff value="say \\"hi\\"\\n"',
    ]


@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("data", HOSTILE)
def test_control_characters_in_data_never_reach_the_terminal(
    tmp_path: Path, data: bytes, color: bool
) -> None:
    header = data.decode(errors="replace")
    log = log_of(tmp_path, build_batch([(T, data, data, [(header, data)])]))

    result = run("--records", "--full", log, color=color)

    own_styles = re.compile(r"\x1b\[[0-9;]*m")
    assert f"key=0x{data.hex()} value=0x{data.hex()}" in own_styles.sub("", result.stdout)
    assert bool(own_styles.search(result.stdout)) is color
    assert "\x1b[31m" not in result.stdout
    assert all(c == "\n" or c.isprintable() for c in own_styles.sub("", result.stdout))


@pytest.mark.parametrize("color", [False, True])
def test_markup_and_emoji_codes_in_data_are_shown_as_they_are(tmp_path: Path, color: bool) -> None:
    text = "[bold red]x[/] :warning: [link=file:///]"

    result = run(
        "--records", log_of(tmp_path, build_batch([pair(b"k", text.encode())])), color=color
    )

    assert f'value="{text}"' in result.stdout


def test_control_characters_in_a_path_are_escaped(tmp_path: Path) -> None:
    hostile = tmp_path / "\x1b[31mevil\n-0"
    hostile.mkdir()

    result = run("--records", log_of(hostile, build_batch([pair(b"k", b"v")]), b"junk"))

    assert "\\x1b[31mevil\\n-0" in result.stdout
    assert "\x1b" not in result.stdout + result.stderr


def test_text_that_looks_like_hex_is_told_from_hex() -> None:
    assert (show_bytes(b"0x00"), show_bytes(b"\x00")) == ('"0x00"', "0x00")
    assert (show_bytes(None), show_bytes(b"null")) == ("null", '"null"')


def test_long_values_are_cut_and_their_length_is_told() -> None:
    assert show_bytes("ä".encode() * 100) == f'"{"ä" * 80}"… (200 bytes)'
    assert show_bytes(b"\xff" * 41) == f"0x{'ff' * 40}… (41 bytes)"
    assert show_bytes(b"x" * 100, full=True) == f'"{"x" * 100}"'


def test_times_outside_the_calendar_are_numbers() -> None:
    assert show_time(2**63 - 1) == f"{2**63 - 1}ms"
    assert show_time(-(2**63)) == f"{-(2**63)}ms"
    assert (show_time(-1), show_time(None), show_time(0)) == (
        "none",
        "none",
        "1970-01-01T00:00:00.000Z",
    )


def test_json_is_one_object_per_line_with_bytes_in_hex(tmp_path: Path) -> None:
    log = log_of(tmp_path, build_batch([(T, b"k\xff", None, [("h\x1b", b"x"), ("n", None)])]))

    result = run("--json", "--records", log)

    found = objects_of(result)
    assert [fact["type"] for fact in found] == ["file", "batch", "record", "log_totals"]
    assert found[2] == {
        "type": "record",
        "path": log,
        "batch_position": 0,
        "offset": 0,
        "timestamp_ms": T,
        "key": "6bff",
        "value": None,
        "headers": [["h\x1b", "78"], ["n", None]],
        "is_control": False,
        "is_tombstone": True,
    }
    assert "\x1b" not in result.stdout


def test_document_lists_the_fields_of_every_fact() -> None:
    documented = {
        name: re.findall(r"`(\w+)`", fields)
        for name, fields in re.findall(r"^\| `(\w+)` \|(.*?)\|", DOCUMENT.read_text(), re.MULTILINE)
    }

    actual = {
        fact.type: [field.name for field in dataclasses.fields(fact)]
        for fact in (*typing.get_args(Fact), TransactionFacts, MetadataFacts)
    }

    assert documented == actual


def test_document_names_every_option() -> None:
    text = DOCUMENT.read_text()

    options = re.findall(r"--[a-z]+", run("--help").stdout)

    assert len(set(options)) > 7
    assert [option for option in options if option != "--help" and f"`{option}" not in text] == []


@pytest.mark.parametrize("key", ["user-7", "0x757365722d37"])
def test_key_is_found_by_text_and_by_hex(tmp_path: Path, key: str) -> None:
    log = log_of(
        tmp_path,
        build_batch([pair(b"user-7", b"1"), pair(b"user-70", b"2")]),
        build_batch([pair(b"user-8", b"3")], base_offset=2),
        build_batch([pair(b"user-7", None)], base_offset=3),
    )

    found = objects_of(run("--json", "--key", key, log))

    assert [fact["offset"] for fact in found if fact["type"] == "record"] == [0, 3]
    assert [fact["base_offset"] for fact in found if fact["type"] == "batch"] == [0, 3]


@pytest.mark.parametrize(
    ("offsets", "expected"), [("1:3", [1, 2]), (":2", [0, 1]), ("3:", [3]), ("0:4", [0, 1, 2, 3])]
)
def test_offsets_are_half_open_and_either_side_may_be_missing(
    tmp_path: Path, offsets: str, expected: list[int]
) -> None:
    log = log_of(tmp_path, build_batch([pair(b"k", b"v")] * 4))

    found = objects_of(run("--json", "--offsets", offsets, log))

    assert [fact["offset"] for fact in found if fact["type"] == "record"] == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ("--offsets", "5"),
        ("--offsets", "5:5"),
        ("--offsets", "a:b"),
        ("--offsets", "-1:4"),
        ("--offsets", f"{'9' * 5000}:"),
        ("--key", "0xabc"),
        ("--key", "k", "--verify"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(tmp_path: Path, arguments: tuple[str]) -> None:
    result = run(*arguments, str(tmp_path))

    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_missing_path_is_named_and_nothing_is_dumped(tmp_path: Path) -> None:
    log = log_of(tmp_path, build_batch([pair(b"k", b"v")]))

    result = run(log, str(tmp_path / "absent"))

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"ledgerstone: {tmp_path / 'absent'}: no such file or directory\n"


def test_bad_file_is_told_and_the_next_file_is_dumped(tmp_path: Path) -> None:
    good = build_batch([pair(b"k", b"v")])
    bad = tmp_path / f"{5:020d}.log"
    bad.write_bytes(good[:-1] + b"!")

    result = run(str(bad), log_of(tmp_path, good))

    assert result.exit_code == 1
    assert f"PROBLEM {bad} at 0: batch at offset 0: crc" in result.stdout
    assert lines_of(result)[-1].startswith("  total base_offset=0 next_offset=1")
    assert result.stderr == "ledgerstone: 2 problems\n"


def test_verify_fails_on_an_index_that_lies(tmp_path: Path) -> None:
    log_of(tmp_path, build_batch([pair(b"k", b"v")]))
    (tmp_path / f"{0:020d}.index").write_bytes(b"\0\0\0\5\0\0\0\7")

    assert run(str(tmp_path)).exit_code == 0
    result = run("--verify", str(tmp_path))

    assert result.exit_code == 1
    assert "no batch begins at log position 7" in result.stdout


def test_log_directory_is_one_line_per_partition_and_everything_with_deep(tmp_path: Path) -> None:
    for partition in range(2):
        directory = tmp_path / f"orders-{partition}"
        directory.mkdir()
        log_of(directory, build_batch([pair(b"k", None)]))

    summary = run(f"{tmp_path}/")
    deep = run("--deep", str(tmp_path))

    assert len(lines_of(summary)) == 2
    assert lines_of(summary)[1].startswith(f"{tmp_path}/orders-1 state=live segment_count=1")
    assert " tombstone_count=1 " in lines_of(summary)[1]
    assert sum(line.startswith("  batch") for line in lines_of(deep)) == 2


def test_read_only_files_are_dumped_and_stay_as_they_are(tmp_path: Path) -> None:
    path = Path(log_of(tmp_path, build_batch([pair(b"k", b"v")])))
    content = path.read_bytes()

    file = ReadOnlyFilesystem().open(str(path))

    assert file.pread(100, 0) == content
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.pwrite(b"x", 0)


def test_version_is_the_packages() -> None:
    result = CliRunner().invoke(app, ["--version"])

    assert (result.exit_code, result.stdout) == (0, f"ledgerstone {ledgerstone.__version__}\n")


def test_expected_error_is_one_line_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise KernelBuildFailed("no compiler\x1b[31m")

    monkeypatch.setattr(command, "dump_path", fail)
    monkeypatch.setattr(sys, "argv", ["ledgerstone", "dump", str(tmp_path)])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 1
    assert capsys.readouterr().err == "ledgerstone: no compiler\\x1b[31m\n"


def test_reader_that_goes_away_ends_the_dump_quietly(tmp_path: Path) -> None:
    log = log_of(tmp_path, build_batch([pair(b"k", b"v" * 70)] * 3000))
    source = str(Path(ledgerstone.__file__).parents[1])

    with subprocess.Popen(
        [sys.executable, "-m", "ledgerstone", "dump", "--records", log],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": source},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        process.stdout.close()
        complaint = process.stderr.read()

    assert first.startswith(log.encode())
    assert (process.returncode, complaint) == (141, b"")


def test_characters_the_output_cannot_encode_are_escaped(tmp_path: Path) -> None:
    log = log_of(tmp_path, build_batch([pair("schlüssel→".encode(), b"v")]))
    source = str(Path(ledgerstone.__file__).parents[1])

    ended = subprocess.run(
        [sys.executable, "-m", "ledgerstone", "dump", "--records", log],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": source, "PYTHONIOENCODING": "ascii"},
    )

    assert b'key="schl\\xfcssel\\u2192"' in ended.stdout
