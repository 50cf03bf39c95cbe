"""The list of parts of a release names all that the locks name, and is the same for the same."""

import json
import re
import tomllib
from typing import Any

import pytest

from sbom import bill_of_materials, locked, read_lock
from tests.docs.documents import ROOT
from tests.kit.locks import lock_text, pinned_names

EPOCH_S = 1_790_000_000
WHEEL = "ledgerstone-1.2.3-py3-none-any.whl"


def made(version: str = "1.2.3") -> dict[str, Any]:
    return bill_of_materials(
        version,
        locked("base.txt"),
        locked("wheel.txt"),
        epoch_s=EPOCH_S,
        files={WHEEL: "ab" * 32},
    )


@pytest.fixture(scope="module")
def bom() -> dict[str, Any]:
    return made()


def hashes(component: dict[str, Any]) -> set[str]:
    (place,) = component["externalReferences"]
    return {each["content"] for each in place["hashes"]}


def test_every_pin_of_the_lock_is_a_required_part_with_its_hashes(bom: dict[str, Any]) -> None:
    # Read in another way than the program does.
    text = lock_text("base.txt")
    pins = re.findall(r"^([a-z0-9._-]+)==(\S+) ((?:\\\n    --hash=sha256:\w{64} ?)+)", text, re.M)
    parts = {each["name"]: each for each in bom["components"] if each["scope"] == "required"}

    for name, version, listed in pins:
        assert parts[name]["version"] == version
        assert parts[name]["purl"] == f"pkg:pypi/{name}@{version}"
        assert hashes(parts[name]) == set(re.findall(r"[0-9a-f]{64}", listed))
    assert set(parts) == {name for name, _, _ in pins} == pinned_names("base.txt")
    assert len(pins) > 10


def test_what_only_builds_is_excluded_from_what_runs(bom: dict[str, Any]) -> None:
    excluded = {each["name"] for each in bom["components"] if each["scope"] == "excluded"}

    assert excluded == pinned_names("wheel.txt") - pinned_names("base.txt")
    assert {"hatchling", "numba", "ziglang"} <= excluded


def test_all_that_the_project_asks_for_is_below_it_and_all_is_connected(
    bom: dict[str, Any],
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {re.split(r"[^a-z0-9.-]", each)[0] for each in project["dependencies"]}
    needs = {each["ref"]: each["dependsOn"] for each in bom["dependencies"]}
    own = bom["metadata"]["component"]["bom-ref"]

    reached = set(needs[own])
    for _ in needs:
        reached |= {below for each in reached for below in needs[each]}

    assert {each.partition("@")[0].removeprefix("pkg:pypi/") for each in needs[own]} == asked
    required = {each["purl"] for each in bom["components"] if each["scope"] == "required"}
    assert reached == required


def test_every_required_part_has_a_licence(bom: dict[str, Any]) -> None:
    without = [
        each["name"]
        for each in bom["components"]
        if each["scope"] == "required" and not each.get("licenses")
    ]

    assert without == []


def test_it_names_the_files_of_the_release_and_when_it_was_made(bom: dict[str, Any]) -> None:
    (place,) = bom["metadata"]["component"]["externalReferences"]

    assert (place["url"], place["hashes"][0]["content"]) == (WHEEL, "ab" * 32)
    assert bom["metadata"]["timestamp"] == "2026-09-21T14:13:20Z"
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.6")


def test_same_release_has_the_same_list_and_another_one_has_another_number(
    bom: dict[str, Any],
) -> None:
    assert json.dumps(made()) == json.dumps(bom)
    assert made("1.2.4")["serialNumber"] != bom["serialNumber"]


def test_pin_without_a_hash_is_refused() -> None:
    with pytest.raises(ValueError, match="no hash for b"):
        read_lock("a==1 \\\n    --hash=sha256:" + "0" * 64 + "\nb==2\n")


@pytest.mark.parametrize(
    "name", sorted(path.name for path in (ROOT / "requirements").glob("*.txt"))
)
def test_every_lock_has_a_hash_for_every_pin(name: str) -> None:
    assert read_lock(lock_text(name))
