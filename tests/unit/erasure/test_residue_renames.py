"""Logs under other names: directories renamed under a scan, and copies that somebody made."""

import pytest

from ledgerstone.erasure.residue import MAX_ROUNDS, scan_dirs
from ledgerstone.erasure.scan_plan import ResiduePlan
from ledgerstone.fs import join
from ledgerstone.records.batch import Codec
from ledgerstone.records.builder import build_batch
from tests.kit.planted_keys import LOG, LOG_DIR, PARTITION, disk_with, keys_of, put, scanned

KEY = b"alice@example.org"
UUID = "0123456789abcdef0123456789abcdef"
DATA = bytes(build_batch([(1, KEY, b"1", ())]))


def test_directory_that_is_renamed_in_the_last_look_makes_the_scan_incomplete() -> None:
    """What was found in it is forgotten with its old name, and nobody has read it under its new
    one: a copy for another directory became the log, or a log was set aside."""
    future = f"{PARTITION}.{UUID}-future"
    fs = disk_with({f"{future}/{LOG}": DATA})
    reads = 0

    def busy(size: int) -> None:
        # Something new in each look, and the rename in the third.
        nonlocal reads
        reads += 1
        put(fs, f"new-{reads}", b"x")
        if reads == MAX_ROUNDS:
            fs.rename(join(LOG_DIR, future), join(LOG_DIR, PARTITION))

    report = scanned(fs, KEY, before_read=busy)

    assert report.restless == (f"0/{future}",)
    assert report.trouble is not None


def test_directory_that_is_renamed_while_it_is_listed_is_listed_again() -> None:
    """Its old name was listed before, and its files are not there when they are listed."""
    future = f"{PARTITION}.{UUID}-future"
    fs = disk_with({f"{future}/{LOG}": DATA})
    looks = 0

    def rename_in_the_second_listing() -> None:
        # Each listing goes on at the log directory and at the one in it; the file is in between.
        nonlocal looks
        looks += 1
        if looks == 5:
            fs.rename(join(LOG_DIR, future), join(LOG_DIR, PARTITION))

    plan = ResiduePlan(log_dirs=(LOG_DIR,), keys=keys_of(KEY))
    report = scan_dirs(fs, plan, go_on=rename_in_the_second_listing)

    assert [each.path for each in report.files] == [f"0/{PARTITION}/{LOG}"]
    assert report.prints[0].records == 1


def test_directories_that_are_removed_for_good_do_no_harm() -> None:
    doomed = f"{PARTITION}.{UUID}-delete"
    fs = disk_with({f"{doomed}/{LOG}": DATA, "z": b"x"})

    def remove(size: int) -> None:
        if fs.exists(join(LOG_DIR, f"{doomed}/{LOG}")):
            fs.unlink(join(LOG_DIR, f"{doomed}/{LOG}"))
            fs.remove_dir(join(LOG_DIR, doomed))

    report = scanned(fs, KEY, before_read=remove)

    assert (report.trouble, report.prints[0].records) == (None, 0)
    assert report.vanished == (f"0/{doomed}/{LOG}",)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("name", [f"{PARTITION}/{LOG}.bak", "copy"])
def test_copy_of_a_log_under_a_foreign_name_is_looked_into(name: str, codec: Codec) -> None:
    """Only its bytes were looked at, and a compressed batch does not show its keys in them."""
    like = [(1, b"%d" % each + KEY[:9], KEY[9:] + b"%d" % each, ()) for each in range(50)]
    data = bytes(build_batch([*like, (1, KEY, b"", ())], codec=codec))
    fs = disk_with({name: data})

    report = scanned(fs, KEY)
    torn = scanned(disk_with({name: data[:-1] + b"~"}), KEY)

    assert (report.prints[0].residue, report.prints[0].records) == (1, 0)
    assert report.trouble is None
    assert (torn.trouble, torn.prints[0].records) == (None, 0)
