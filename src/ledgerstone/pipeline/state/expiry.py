"""Checks whether a key that is missing in a topic may simply have expired there. Shell.

`cleanup.policy=compact` never drops the latest value of a key, so a row without a record means a
missed delete. A topic that also deletes by time or size drops values too, and the two cannot be
told apart: commands that would delete such rows stop here.
"""

from ledgerstone.client.configs import Resource, ResourceType, describe_configs
from ledgerstone.pipeline.connecting import connect_to
from ledgerstone.pipeline.definition import Source
from ledgerstone.pipeline.errors import PipelineError


def check_nothing_expires(source: Source) -> None:
    with connect_to(source.bootstrap, source.command_config) as client:
        entries = describe_configs(client, Resource(ResourceType.TOPIC, source.topic))
    policy = next((each.value or "" for each in entries if each.name == "cleanup.policy"), "")
    if [each.strip() for each in policy.split(",")] != ["compact"]:
        raise PipelineError(
            f"topic {source.topic} has cleanup.policy={policy}: rows that it no longer holds may "
            "have expired there, so none is deleted. Start with an empty table to follow it"
        )
