"""Releases of Kafka as levels of `metadata.version`, and the features a new cluster gets. Pure."""

import re
from collections.abc import Mapping
from typing import Final

from ledgerstone.errors import FormatRefused
from ledgerstone.metadata.features import (
    CONTROLLER_FEATURES,
    DEPENDENCIES,
    ELR_FEATURE,
    GROUP_VERSION_FEATURE,
    KRAFT_VERSION_FEATURE,
    METADATA_VERSION,
    METADATA_VERSION_FEATURE,
    SHARE_VERSION_FEATURE,
    STREAMS_VERSION_FEATURE,
    SUPPORTED_FEATURES,
    TRANSACTION_VERSION_FEATURE,
)
from ledgerstone.protocol.messages.metadata_records import FeatureLevelRecord

# The levels of each release, in order: IV0, IV1, … of the ones Kafka 4 still knows.
_LEVELS: Final[Mapping[str, range]] = {
    "3.3": range(7, 8),
    "3.4": range(8, 9),
    "3.5": range(9, 12),
    "3.6": range(12, 15),
    "3.7": range(15, 20),
    "3.8": range(20, 21),
    "3.9": range(21, 22),
    "4.0": range(22, 26),
    "4.1": range(26, 28),
    "4.2": range(28, 30),
    "4.3": range(30, 31),
}
# 3.3 begins with IV3: the ones before belong to ZooKeeper.
_FIRST_NUMBER: Final = {"3.3": 3}
_RELEASE: Final = re.compile(r"([0-9]+\.[0-9]+)(?:-IV([0-9]+)|(?:\.[0-9]+)*)")
# Where a new cluster of a release has a feature on: from this level of metadata.version.
_ON_FROM: Final[Mapping[str, Mapping[int, int]]] = {
    TRANSACTION_VERSION_FEATURE: {24: 2},
    GROUP_VERSION_FEATURE: {22: 1},
    ELR_FEATURE: {26: 1},
    SHARE_VERSION_FEATURE: {28: 1},
    STREAMS_VERSION_FEATURE: {29: 1},
}


def level_of(release: str) -> int:
    """`4.3`, `4.3.1` or `4.3-IV0`; without IV, the last one of the release."""
    found = _RELEASE.fullmatch(release)
    levels = _LEVELS.get(found[1]) if found else None
    if found is None or levels is None:
        first, *_, last = _LEVELS
        raise FormatRefused(f"release {release!r} is unknown: {first} to {last} are known")
    number = len(levels) - 1
    if found[2] is not None:
        number = int(found[2]) - _FIRST_NUMBER.get(found[1], 0)
        if not 0 <= number < len(levels):
            raise FormatRefused(f"release {release!r} is unknown")
    return _supported(METADATA_VERSION_FEATURE, levels[number])


def name_of(level: int) -> str:
    """As Kafka names it: `4.3-IV0`."""
    for release, levels in _LEVELS.items():
        if level in levels:
            return f"{release}-IV{level - levels.start + _FIRST_NUMBER.get(release, 0)}"
    return str(level)


def initial_features(
    given: Mapping[str, int], *, release: str | None = None, kraft_version: int
) -> dict[str, int]:
    """The level of each feature that a new cluster starts with, but for `kraft.version`, which is
    not among the bootstrap records. `given` overrides what the release would have."""
    if METADATA_VERSION_FEATURE in given and release is not None:
        raise FormatRefused("a release and metadata.version are two ways to say the same thing")
    if given.get(KRAFT_VERSION_FEATURE, kraft_version) != kraft_version:
        raise FormatRefused(
            f"kraft.version is {kraft_version} here: 0 with controller.quorum.voters, 1 without"
        )
    metadata = METADATA_VERSION if release is None else level_of(release)
    metadata = _supported(METADATA_VERSION_FEATURE, given.get(METADATA_VERSION_FEATURE, metadata))
    levels = {METADATA_VERSION_FEATURE: metadata}
    for name in sorted(dict.fromkeys((*_ON_FROM, *given))):
        if name in (METADATA_VERSION_FEATURE, KRAFT_VERSION_FEATURE):
            continue
        if name in given:
            levels[name] = _supported(name, given[name])
        elif name in SUPPORTED_FEATURES:
            levels[name] = _default(name, metadata)
    levels = {name: level for name, level in levels.items() if level > 0}
    _check_dependencies(levels)
    return levels


def feature_records(levels: Mapping[str, int]) -> list[FeatureLevelRecord]:
    """In Kafka's order: metadata.version, then the others by name."""
    return [
        FeatureLevelRecord(name=name, feature_level=levels[name])
        for name in sorted(levels, key=lambda name: (name != METADATA_VERSION_FEATURE, name))
    ]


def _default(name: str, metadata_version: int) -> int:
    reached = [level for since, level in _ON_FROM[name].items() if metadata_version >= since]
    return min(max(reached, default=0), SUPPORTED_FEATURES[name][1])


def _check_dependencies(levels: Mapping[str, int]) -> None:
    for (name, level), needed in DEPENDENCIES.items():
        for other, least in needed.items():
            if levels.get(name, 0) >= level and levels.get(other, 0) < least:
                raise FormatRefused(f"{name}={level} needs {other}={least} or later")


def _supported(name: str, level: int) -> int:
    if name not in CONTROLLER_FEATURES:
        known = ", ".join(sorted(CONTROLLER_FEATURES))
        raise FormatRefused(f"feature {name} is not supported; supported are {known}")
    low, high = CONTROLLER_FEATURES[name]
    if not low <= level <= high:
        raise FormatRefused(f"{name}={level} is not supported; {low} to {high} are")
    return level
