"""UpdateFeatures: the levels that are finalized for the whole cluster. Pure.

All or nothing: the first update that is refused refuses the request. A level must be supported by
this controller, by every registered broker and by every voter, fenced or not: any of them may have
to read what is written then.
"""

import enum
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from ledgerstone.errors import InvalidUpdateVersion, KafkaError
from ledgerstone.metadata.decision import Decision, reason_of
from ledgerstone.metadata.features import (
    CONTROLLER_FEATURES,
    CONTROLLER_REGISTRATION_FROM,
    DEPENDENCIES,
    ELR_FEATURE,
    KRAFT_VERSION_FEATURE,
    METADATA_VERSION_FEATURE,
    RECORDS_CHANGED_AT,
)
from ledgerstone.metadata.image import (
    EVERY_BROKER,
    MetadataImage,
    ResourceType,
    SupportedFeature,
)
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
)
from ledgerstone.protocol.messages.update_features import (
    UpdateFeaturesFeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpdateFeaturesResult,
)

_MIN_ISR: Final = "min.insync.replicas"
_FAILED: Final = "The update failed for all features since the following feature had an error: "


class UpgradeType(enum.IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class QuorumFacts(NamedTuple):
    """What the quorum says of itself; no record of the image does."""

    kraft_version: int = 0
    voter_ids: Collection[int] = ()


def update_features(
    image: MetadataImage,
    request: UpdateFeaturesRequest,
    *,
    own_id: int,
    quorum: QuorumFacts,
    min_insync_replicas: str,
) -> Decision[UpdateFeaturesResponse]:
    levels = {each.feature: each.max_version_level for each in request.feature_updates}
    proposed = {**image.features, **levels}
    records: list[MetadataRecord] = []
    kraft_version = None
    try:
        for update in request.feature_updates:
            name, level = update.feature, update.max_version_level
            current = _current(image, quorum, name)
            _check(image, update, current, own_id=own_id, voter_ids=quorum.voter_ids)
            _check_dependencies(name, level, proposed)
            if name == KRAFT_VERSION_FEATURE:
                kraft_version = level if level != current else None
            elif level != current:
                records.append(FeatureLevelRecord(name, level))
    except KafkaError as error:
        refusal = UpdateFeaturesResponse(0, error.code, _FAILED + reason_of(error))
        return Decision([], refusal)
    results = [UpdateFeaturesResult(feature=each.feature) for each in request.feature_updates]
    response = UpdateFeaturesResponse(results=results)
    if request.validate_only:
        return Decision([], response)
    if levels.get(ELR_FEATURE, 0) > 0:
        records = [*min_isr_records(image, min_insync_replicas), *records]
    if kraft_version is not None:
        # An offset to wait for: the quorum's own records are not the controller's.
        records.append(NoOpRecord())
    return Decision(records, response, kraft_version=kraft_version)


def min_isr_records(image: MetadataImage, default: str) -> list[MetadataRecord]:
    """Who is eligible depends on min.insync.replicas. It must not differ between the brokers that
    decide, so from now on it is set for all of them, and for none alone."""
    records: list[MetadataRecord] = []
    if _MIN_ISR not in image.config_of(EVERY_BROKER):
        records.append(ConfigRecord(*EVERY_BROKER, _MIN_ISR, default))
    for resource in sorted(image.configs):
        is_one_broker = resource.resource_type == ResourceType.BROKER and resource.name
        if is_one_broker and _MIN_ISR in image.config_of(resource):
            records.append(ConfigRecord(*resource, _MIN_ISR, None))
    return records


def _current(image: MetadataImage, quorum: QuorumFacts, name: str) -> int:
    if name == KRAFT_VERSION_FEATURE:
        return quorum.kraft_version
    return image.features.get(name, 0)


def _check(
    image: MetadataImage,
    update: UpdateFeaturesFeatureUpdate,
    current: int,
    *,
    own_id: int,
    voter_ids: Collection[int],
) -> None:
    name, level = update.feature, update.max_version_level
    kind = _upgrade_type(update)
    if kind is None:
        raise _invalid(name, level, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid(name, level, "A feature version cannot be less than 0.")
    if (reason := _unsupported(image, name, level, own_id, voter_ids)) is not None:
        raise _invalid(name, level, reason)
    if level < current and kind is UpgradeType.UPGRADE:
        raise _invalid(
            name,
            level,
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade.",
        )
    if level > current and kind is not UpgradeType.UPGRADE:
        raise _invalid(name, level, "Can't downgrade to a newer version.")
    if level < current and name == KRAFT_VERSION_FEATURE:
        raise _invalid(name, level, "Can't downgrade the version of this feature.")
    if level < current and name == METADATA_VERSION_FEATURE:
        _check_downgrade(current, level, kind)


def _upgrade_type(update: UpdateFeaturesFeatureUpdate) -> UpgradeType | None:
    if update.allow_downgrade:
        # Version 0 of the request knows no types.
        return UpgradeType.SAFE_DOWNGRADE
    return UpgradeType(update.upgrade_type) if update.upgrade_type in (1, 2, 3) else None


def _check_downgrade(current: int, level: int, kind: UpgradeType) -> None:
    """Only between levels that have the same records: nothing can be lost then."""
    if RECORDS_CHANGED_AT.isdisjoint(range(level + 1, current + 1)):
        return
    reason = (
        "Unsafe metadata downgrade is not supported in this version."
        if kind is UpgradeType.UNSAFE_DOWNGRADE
        else "Refusing to perform the requested downgrade because it might delete metadata "
        "information."
    )
    raise InvalidUpdateVersion(
        f"Unsupported metadata.version downgrade from {current} to {level}. {reason}"
    )


def _check_dependencies(name: str, level: int, proposed: Mapping[str, int]) -> None:
    for needed, lowest in DEPENDENCIES.get((name, level), {}).items():
        if proposed.get(needed, 0) < lowest:
            raise _invalid(
                name,
                level,
                f"{name} could not be set to {level} because it depends on {needed} level {lowest}",
            )


def _unsupported(
    image: MetadataImage, name: str, level: int, own_id: int, voter_ids: Collection[int]
) -> str | None:
    own = CONTROLLER_FEATURES.get(name, (0, 0))
    if (reason := _outside(f"Local controller {own_id}", level, own)) is not None:
        return reason
    for broker_id, broker in sorted(image.brokers.items()):
        found = _range_of(broker.features, name)
        if (reason := _outside(f"Broker {broker_id}", level, found)) is not None:
            return reason
    if image.metadata_version < CONTROLLER_REGISTRATION_FROM:
        return None
    for controller_id, controller in sorted(image.controllers.items()):
        if controller_id != own_id:
            found = _range_of(controller.features, name)
            if (reason := _outside(f"Controller {controller_id}", level, found)) is not None:
                return reason
    for voter_id in sorted(voter_ids):
        if voter_id != own_id and voter_id not in image.controllers:
            return f"controller {voter_id} has not registered, and may not support this feature"
    return None


def _range_of(features: Iterable[SupportedFeature], name: str) -> tuple[int, int]:
    found = next((each for each in features if each.name == name), None)
    return (0, 0) if found is None else (found.min_version, found.max_version)


def _outside(who: str, level: int, levels: tuple[int, int]) -> str | None:
    first, last = levels
    if first <= level <= last:
        return None
    if last == 0:
        return f"{who} does not support this feature."
    return f"{who} only supports versions {first}-{last}"


def _invalid(name: str, level: int, reason: str) -> InvalidUpdateVersion:
    return InvalidUpdateVersion(f"Invalid update version {level} for feature {name}. {reason}")
