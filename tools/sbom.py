"""A list of what a release is made of, from the locks: CycloneDX 1.6. Shell grade.

Every package of `requirements/base.txt`, which a broker runs with, is a required part. One that is
in `requirements/wheel.txt` only has built it, and is an excluded part. Each has the hashes that its
files may have, its licence as its own metadata name it, and what it is needed by. The same locks
and the same time make the same bytes.
"""

import datetime
import hashlib
import importlib.metadata
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

REPOSITORY: Final = Path(__file__).resolve().parent.parent
SCHEMA: Final = "http://cyclonedx.org/schema/bom-1.6.schema.json"
OURS: Final = "ledgerstone"
_PIN: Final = re.compile(r"([a-z0-9][a-z0-9._-]*)==([^\s;\\]+)")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NAMESPACE: Final = uuid.UUID("6b4e8c1a-2f0d-4c53-9a7e-5d1f0b6c9e21")
_LICENCE: Final = "License :: "


class Locked(NamedTuple):
    name: str
    version: str
    hashes: tuple[str, ...]
    # Names of packages; ours for what is asked for directly.
    needed_by: tuple[str, ...]

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


def read_lock(text: str) -> list[Locked]:
    """The lines that pip-compile writes; ValueError for a pin without a hash."""
    found: list[Locked] = []
    for line in text.splitlines():
        pin, bare = _PIN.match(line), line.strip()
        if pin is not None:
            found.append(Locked(pin[1], pin[2], (), ()))
        elif found and (listed := _HASH.match(bare)) is not None:
            found[-1] = found[-1]._replace(hashes=(*found[-1].hashes, listed[1]))
        elif found and bare.startswith("#"):
            found[-1] = found[-1]._replace(needed_by=(*found[-1].needed_by, *_names(bare)))
    bare_pins = [each.name for each in found if not each.hashes]
    if bare_pins:
        raise ValueError(f"no hash for {', '.join(bare_pins)}")
    return found


def _names(comment: str) -> list[str]:
    text = comment.removeprefix("#").strip().removeprefix("via").strip()
    # `-c` and `-r` name files, not packages.
    return [text.split()[0]] if text and not text.startswith("-") else []


def licence_of(name: str) -> list[dict[str, Any]]:
    """By the metadata of the package that is installed here; empty if it names none."""
    try:
        metadata = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return []
    # Typed as a mapping without `get`; a name that is not there is no error, but None.
    if "License-Expression" in metadata:
        return [{"expression": metadata["License-Expression"]}]
    classified = [
        each.rpartition(" :: ")[2]
        for each in metadata.get_all("Classifier", [])
        if each.startswith(_LICENCE)
    ]
    # Some put the whole text there.
    named = (metadata.get_all("License") or [""])[0]
    short = named.strip().splitlines()[:1]
    names = classified or [each for each in short if len(each) < 80]
    return [{"license": {"name": each}} for each in names]


def bill_of_materials(
    version: str,
    runs_with: Sequence[Locked],
    built_with: Sequence[Locked],
    *,
    epoch_s: int,
    files: Mapping[str, str],
) -> dict[str, Any]:
    """`files` are those of the release, with their SHA-256."""
    required = {each.name for each in runs_with}
    parts = [*runs_with, *(each for each in built_with if each.name not in required)]
    refs = {each.name: each.purl for each in parts}
    own = f"pkg:pypi/{OURS}@{version}"
    needs: dict[str, list[str]] = {own: [], **{each.purl: [] for each in parts}}
    for each in runs_with:
        for name in each.needed_by:
            needs[own if name == OURS else refs[name]].append(each.purl)
    stamp = datetime.datetime.fromtimestamp(epoch_s, datetime.UTC)
    identity = json.dumps([version, epoch_s, sorted(files.items()), parts])
    return {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, identity)}",
        "version": 1,
        "metadata": {
            "timestamp": stamp.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": OURS,
                "version": version,
                "purl": own,
                "licenses": [{"expression": "Apache-2.0"}],
                "externalReferences": [
                    {"type": "distribution", "url": name, "hashes": [_sha256(digest)]}
                    for name, digest in sorted(files.items())
                ],
            },
        },
        "components": [_component(each, is_required=each.name in required) for each in parts],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(set(below))} for ref, below in sorted(needs.items())
        ],
    }


def _component(part: Locked, *, is_required: bool) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "library",
        "bom-ref": part.purl,
        "name": part.name,
        "version": part.version,
        "purl": part.purl,
        "scope": "required" if is_required else "excluded",
        "externalReferences": [
            {
                "type": "distribution",
                "url": part.purl,
                "comment": "one hash for each file of the release",
                "hashes": [_sha256(each) for each in part.hashes],
            }
        ],
    }
    if licences := licence_of(part.name):
        made["licenses"] = licences
    return made


def _sha256(digest: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": digest}


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def locked(name: str) -> list[Locked]:
    return read_lock((REPOSITORY / "requirements" / name).read_text(encoding="utf-8"))
