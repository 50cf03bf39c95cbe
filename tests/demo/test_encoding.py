"""Records of a history, and rows back to what git prints."""

import json

import pytest

from ledgerstone.demo.checking import check_equal
from ledgerstone.demo.encoding import AUTHORS, FILES, HistoryEncoder, TreeRow, definitions, listing
from ledgerstone.demo.errors import DemoFailed
from ledgerstone.demo.history import Commit, FileChange, FileEntry, History

ENTRY = FileEntry("100644", "ab" * 20, 12)
TREE = listing([TreeRow(b"a", "100644", "ab" * 20, 1), TreeRow(b"b", "100644", "cd" * 20, 2)])


def commit(number: int, *changes: FileChange, author: bytes = b"Ann Other") -> Commit:
    return Commit(
        commit_id=f"{number:040x}", author=author, time_ms=1_000 * number, changes=changes
    )


def history(*commits: Commit) -> History:
    return History(origin="a test", commits=commits, truth=lambda _: b"", truth_name="")


def test_names_are_in_the_topic_of_authors_alone() -> None:
    encoder = HistoryEncoder()

    records = [
        *encoder.records_of(commit(1, FileChange(b"a", ENTRY), FileChange(b"b", ENTRY))),
        *encoder.records_of(commit(2, FileChange(b"a", None), author=b"Bea Nother")),
        *encoder.records_of(commit(3, FileChange(b"a", ENTRY))),
    ]

    files = [each for each in records if each.topic == FILES]
    authors = [each for each in records if each.topic == AUTHORS]
    assert all(b"Ann" not in (each.value or b"") for each in records)
    assert [each.key for each in authors] == [
        b"author:Ann Other", b"author:Bea Nother", b"author:Ann Other",
    ]  # fmt: skip
    assert [json.loads(each.value or b"")["commits"] for each in authors] == [1, 1, 2]
    assert [each.value and json.loads(each.value)["author"] for each in files] == [1, 1, None, 1]


def test_record_has_the_time_of_its_commit() -> None:
    records = HistoryEncoder().records_of(
        commit(7, FileChange(b"a", ENTRY), FileChange(b"b", None))
    )

    assert {each.timestamp_ms for each in records} == {7_000}


def test_middle_lies_behind_half_of_the_changes_and_before_the_end() -> None:
    small = [commit(number, FileChange(b"a", ENTRY)) for number in range(1, 5)]
    large = commit(9, *(FileChange(b"%d" % number, ENTRY) for number in range(50)))

    assert history(*small).middle() == 2
    assert history(large, *small).middle() == 1
    assert history(*small, large).middle() == 4


def test_keys_that_are_no_text_become_bytes() -> None:
    made = definitions("broker:1", {FILES: [b"a", b"\xff"], AUTHORS: [b"author:A"]})

    assert made[FILES]["key"] == {"format": "raw", "column": "path"}
    assert made[AUTHORS]["key"] == {"format": "string", "column": "author"}


def test_equal_trees_have_a_count_and_a_checksum() -> None:
    found = check_equal("the table", "c0ffee", found=TREE, truth=TREE)

    assert (found.files, found.digits) == (2, found.sha256[:16])


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (TREE[: len(TREE) // 2], "1 files, but the truth has 2; missing, first: b'100644 blob cd"),
        (TREE.replace(b"\tb", b"\tc"), r"2 files, .* has 2; too much, first: .*\\tc'"),
        (TREE.replace(b"      2", b"      3"), r"too much, first: .*       3\\tb'"),
        (b"", "0 files, but the truth has 2; missing"),
    ],
)
def test_difference_names_the_numbers_and_a_file(found: bytes, said: str) -> None:
    with pytest.raises(DemoFailed, match=f"the table is not the tree of commit c0ffee: .*{said}"):
        check_equal("the table", "c0ffee", found=found, truth=TREE)
