"""What the files in requirements/ pin, read without the programs under tools/."""

import re

from tests.kit.broker import SOURCE


def lock_text(name: str) -> str:
    return (SOURCE.parent / "requirements" / name).read_text(encoding="utf-8")


def pinned_names(name: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9._-]+)==", lock_text(name), re.MULTILINE))
