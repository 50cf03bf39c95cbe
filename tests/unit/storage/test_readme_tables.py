"""The byte tables of the READMEs say what the struct formats in the code do."""

import re
import struct
from pathlib import Path
from typing import NamedTuple

import pytest

from ledgerstone.records import batch
from ledgerstone.storage import offset_index, producer_snapshot, time_index, txn_index

PACKAGE = Path(batch.__file__).resolve().parents[1]
STORAGE = "storage/README.md"
RECORDS = "records/README.md"
ROW = re.compile(r"\| *(\d+) *\| *(\d*) *\| *([^|]+?) *\|(?: *(\w+) *\|)?")
# Big-endian, so that nothing is padded.
LETTERS = {"b": "int8", "h": "int16", "i": "int32", "I": "uint32", "q": "int64"}


class Field(NamedTuple):
    at: int
    size: int
    name: str
    type: str


def table_after(readme: str, heading: str) -> list[Field]:
    """The rows of the first table of numbers below a line that holds `heading`."""
    lines = (PACKAGE / readme).read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if heading in line)
    found: list[Field] = []
    for line in lines[start:]:
        row = ROW.match(line)
        if row is not None:
            size = int(row[2]) if row[2] else 0
            found.append(Field(int(row[1]), size, row[3], row[4] or ""))
        elif found:
            break
    return found


def layout_of(struct_format: str) -> list[tuple[int, int]]:
    """Where each field of a big-endian format lies, and its size."""
    letters = struct_format.removeprefix(">")
    sizes = [struct.calcsize(">" + letter) for letter in letters]
    return [(sum(sizes[:number]), size) for number, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("heading", "entry"),
    [
        ("### `.index`", offset_index.ENTRY),
        ("### `.timeindex`", time_index.ENTRY),
        ("### `.txnindex`", txn_index.ENTRY),
        ("### `.snapshot`", producer_snapshot.ENTRY),
    ],
)
def test_entry_lies_on_disk_as_its_table_says(heading: str, entry: struct.Struct) -> None:
    table = table_after(STORAGE, heading)

    assert entry.format.startswith(">")
    assert [(field.at, field.size) for field in table] == layout_of(entry.format)
    assert sum(field.size for field in table) == entry.size


def test_names_in_the_tables_are_those_of_the_code() -> None:
    txn = [field.name for field in table_after(STORAGE, "### `.txnindex`")]
    snapshot = [field.name for field in table_after(STORAGE, "### `.snapshot`")]

    assert [name.split(" (")[0].replace(" ", "_") for name in txn[1:4]] == list(
        txn_index.AbortedTxnEntry._fields[:3]
    )
    assert txn[0] == f"version, {txn_index.VERSION}"
    assert len(snapshot) == len(producer_snapshot.SnapshotEntry._fields)
    assert snapshot[:2] == ["producer id", "epoch"]


def test_header_of_a_snapshot_is_as_its_sentence_says() -> None:
    text = (PACKAGE / STORAGE).read_text(encoding="utf-8")
    sentence = re.search(
        r"Header: version (\d+) \((\w+)\), CRC-32C .* \((\w+)\), count \((\w+)\)", text
    )

    assert sentence is not None
    assert int(sentence[1]) == producer_snapshot.VERSION
    letters = producer_snapshot.HEADER.format.removeprefix(">")
    assert [LETTERS[letter] for letter in letters] == list(sentence.groups()[1:])


@pytest.mark.parametrize(
    ("file", "size"),
    [
        ("N.index", offset_index.ENTRY_BYTES),
        ("N.timeindex", time_index.ENTRY_BYTES),
        ("N.txnindex", txn_index.ENTRY_BYTES),
    ],
)
def test_list_of_files_gives_the_size_of_an_entry(file: str, size: int) -> None:
    text = (PACKAGE / STORAGE).read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith(f"| `{file}`"))

    assert f"{size} bytes an entry" in line


def test_batch_header_lies_on_disk_as_its_table_says() -> None:
    table = table_after(RECORDS, "| at | size | field |")
    fields, records = table[:-1], table[-1]
    struct_format = batch._HEADER.format

    assert [field.name for field in fields] == list(batch.BatchHeader._fields)
    assert [(field.at, field.size) for field in fields] == layout_of(struct_format)
    assert [field.type for field in fields] == [LETTERS[x] for x in struct_format.lstrip(">")]
    assert records.at == batch.HEADER_SIZE == batch._HEADER.size


def test_offsets_of_header_fields_are_those_the_code_stamps_at() -> None:
    at = {field.name: field.at for field in table_after(RECORDS, "| at | size | field |")}

    constants = {
        name.removesuffix("_AT").lower(): value
        for name, value in vars(batch).items()
        if name.endswith("_AT") and isinstance(value, int)
    }
    assert constants.items() <= at.items()
    assert len(constants) == len(batch.BatchHeader._fields)


def test_attribute_masks_are_those_of_the_code() -> None:
    text = (PACKAGE / RECORDS).read_text(encoding="utf-8")
    masks = [int(mask, 16) for mask in re.findall(r"^\| [\d–]+ \| (0x[0-9a-f]{2}) \|", text, re.M)]

    assert masks == [
        batch.CODEC_MASK,
        batch.LOG_APPEND_TIME_FLAG,
        batch.TRANSACTIONAL_FLAG,
        batch.CONTROL_FLAG,
        batch.DELETE_HORIZON_FLAG,
    ]
    assert sum(masks) == batch.KNOWN_ATTRIBUTES
