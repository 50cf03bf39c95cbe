"""Archives of classes: which file a JVM maps, which it writes, what is cleared away."""

import os
from pathlib import Path

import pytest

from ledgerstone.spark.class_archive import ClassArchive, archive_for
from ledgerstone.spark.java import JavaHome

JAVA = JavaHome(path=Path("java"), version=17, identity="17.0.1", is_bundled=False)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEDGERSTONE_CACHE_DIR", str(tmp_path))
    return tmp_path


def _archive(version: str = "4.1.0") -> ClassArchive:
    archive = archive_for(JAVA, version, Path("spark"))
    assert archive is not None
    return archive


def test_first_jvm_writes_a_draft_and_later_ones_map_what_became_of_it() -> None:
    first = _archive()
    assert first.draft is not None
    first.draft.touch()
    first.draft.rename(first.path)

    later = _archive()

    assert later.draft is None
    assert later.path == first.path
    assert any(str(first.path) in option for option in later.options)


def test_session_that_keeps_no_classes_writes_nothing_and_maps_what_others_kept() -> None:
    assert archive_for(JAVA, "4.1.0", Path("spark"), keep=False) is None
    kept = _archive().path
    kept.touch()

    found = archive_for(JAVA, "4.1.0", Path("spark"), keep=False)

    assert found is not None
    assert (found.path, found.draft) == (kept, None)


def test_another_spark_has_another_archive() -> None:
    assert _archive("4.1.0").path != _archive("4.2.0").path


def test_draft_that_a_killed_process_left_is_removed_and_a_fresh_one_stays(cache: Path) -> None:
    left, fresh, finished = (cache / name for name in ("a.jsa.1", "b.jsa.2", "c.jsa"))
    for path in (left, fresh, finished):
        path.touch()
    for path in (left, finished):
        os.utime(path, (0, 0))

    _archive()

    assert sorted(path.name for path in cache.iterdir()) == ["b.jsa.2", "c.jsa"]


def test_directory_that_others_may_write_to_means_no_archive(cache: Path) -> None:
    cache.chmod(0o777)

    assert archive_for(JAVA, "4.1.0", Path("spark")) is None
