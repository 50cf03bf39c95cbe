"""A home of Spark whose Python archives are the packages that are installed."""

import subprocess
import sys
import zipfile
from pathlib import Path

from ledgerstone.spark.spark_home import linked_home


def installed_spark(root: Path) -> Path:
    """As pip leaves it: modules, jars and archives of the same modules in one directory."""
    home = root / "site" / "pyspark"
    libraries = home / "python" / "lib"
    for directory in (libraries, home / "jars", home / "bin", home / "sql"):
        directory.mkdir(parents=True)
    for module in (home, home / "sql"):
        (module / "__init__.py").write_text("")
    (home / "bin" / "spark-submit").write_text("#!/bin/sh\n")
    for name in ("pyspark.zip", "py4j-0.10.9.9-src.zip", "other.zip"):
        with zipfile.ZipFile(libraries / name, "w") as archive:
            archive.writestr(f"{name.partition('.')[0].partition('-')[0]}/__init__.py", "")
    return home


def imported_from(path: Path, module: str) -> Path:
    code = (
        f"import sys; sys.path.insert(0, {str(path)!r}); import {module}; print({module}.__file__)"
    )
    said = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=True)
    return Path(said.stdout.decode().strip())


def test_pyspark_is_imported_from_where_its_byte_code_can_be_kept(tmp_path: Path) -> None:
    real = installed_spark(tmp_path)

    home = linked_home(real, {"pyspark": real}, tmp_path / "cache")

    assert home is not None
    found = imported_from(home / "python" / "lib" / "pyspark.zip", "pyspark.sql")
    assert found.resolve() == real / "sql" / "__init__.py"
    assert list((real / "sql" / "__pycache__").iterdir())


def test_what_spark_looks_for_is_there_and_an_unknown_archive_stays_one(tmp_path: Path) -> None:
    real = installed_spark(tmp_path)
    packages = {"pyspark": real, "py4j": tmp_path / "site" / "py4j"}

    home = linked_home(real, packages, tmp_path / "cache")

    assert home is not None
    assert sorted(each.name for each in home.iterdir()) == ["bin", "jars", "python"]
    assert (home / "bin" / "spark-submit").read_text() == "#!/bin/sh\n"
    libraries = home / "python" / "lib"
    assert (libraries / "py4j-0.10.9.9-src.zip" / "py4j").readlink() == packages["py4j"]
    assert zipfile.is_zipfile(libraries / "other.zip")


def test_a_package_that_moved_and_settings_that_came_later_are_followed(tmp_path: Path) -> None:
    real = installed_spark(tmp_path)
    first = linked_home(real, {"pyspark": tmp_path / "gone"}, tmp_path / "cache")
    (real / "conf").mkdir()

    home = linked_home(real, {"pyspark": real}, tmp_path / "cache")

    assert home == first
    assert home is not None
    assert (home / "python" / "lib" / "pyspark.zip" / "pyspark").readlink() == real
    assert (home / "conf").is_dir()


def test_without_archives_or_a_cache_to_trust_spark_stays_where_it_is(tmp_path: Path) -> None:
    real = installed_spark(tmp_path)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "client" / "pyspark").mkdir(parents=True)

    assert linked_home(real, {}, tmp_path / "open") is None
    assert linked_home(tmp_path / "client" / "pyspark", {}, tmp_path / "cache") is None
