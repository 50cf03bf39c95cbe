"""Which Java is taken, and the shim around the one that lacks a module."""

import subprocess
from pathlib import Path

import pytest

from ledgerstone.spark import java as java_module
from ledgerstone.spark.java import NoJava, find_java, shim_home


def fake_java(home: Path, version: str) -> Path:
    """A JDK that can only say its version, and what it was started with."""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "{version}"\' >&2\n'
        'else for each in "$@"; do echo "<$each>"; done; fi\n'
    )
    launcher.chmod(0o755)
    return home


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "21.0.1")
    other = fake_java(tmp_path / "other", "17.0.1")

    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})

    assert (found.path, found.version, found.is_bundled) == (home, 21, False)


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_392")
    new = fake_java(tmp_path / "new", "17.0.9")

    found = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})

    assert found.path == new


def test_options_from_the_environment_make_no_other_java(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "17.0.1")
    plain = find_java({"JAVA_HOME": str(home), "PATH": ""})
    launcher = home / "bin" / "java"
    text = launcher.read_text().replace(
        "echo 'openjdk", "echo 'Picked up O: -Xx' >&2; echo 'openjdk"
    )
    launcher.write_text(text)

    with_options = find_java({"JAVA_HOME": str(home), "PATH": ""})

    assert with_options.identity == plain.identity != ""


def test_without_any_java_the_message_says_what_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setattr(java_module, "_bundled_home", lambda: None)

    with pytest.raises(NoJava, match=r"old \(version 11\)"):
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    with pytest.raises(NoJava, match="neither JAVA_HOME nor"):
        find_java({"PATH": ""})


def test_the_shim_leaves_out_one_argument_and_keeps_the_others_as_they_are(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "it's here", "25")

    shim = shim_home(home, tmp_path / "cache")
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "-Dx=$HOME", "", "'"]
    said = subprocess.run([shim / "bin" / "java", *arguments], capture_output=True, check=True)

    assert said.stdout.decode().splitlines() == ["<-cp>", "<a b>", "<-Dx=$HOME>", "<>", "<'>"]
    assert shim_home(home, tmp_path / "cache") == shim
