"""Apache Kafka's brokers and ours replicate each other's partitions under load."""

import json
import shutil
from pathlib import Path

import pytest

from bench.nemesis.clients import TABLE, TABLE_PARTITIONS
from tests.compat.mixed_story import GUEST, HOME, MixedStory, mixed_story
from tests.kit.broker import wait_until
from tests.kit.nodes import KAFKA, LEDGERSTONE
from tests.kit.storage_tool import ledgerstone

pytestmark = [
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="Kafka needs Java"),
]


def _assert_why_is_answered(story: MixedStory) -> None:
    """Kafka's brokers have no such API, and are passed over."""
    bootstrap = story.cluster[GUEST].planned.bootstrap
    said = ledgerstone("why", TABLE, "--json", "--bootstrap", bootstrap)
    assert said.returncode == 0, said.stderr
    found = [json.loads(line)["partition"] for line in said.stdout.splitlines()]
    assert sorted(found) == list(range(TABLE_PARTITIONS))


@pytest.mark.parametrize(
    ("home", "guest"),
    [(KAFKA, LEDGERSTONE), (LEDGERSTONE, KAFKA)],
    ids=["guest-ours", "guest-kafkas"],
)
def test_guest_follows_leads_and_follows_again(home: str, guest: str, tmp_path: Path) -> None:
    with mixed_story(home, guest, tmp_path) as story:
        story.begin()
        story.cluster.start(GUEST)
        story.move_to(*HOME, GUEST)
        story.progress("the guest follows")
        if guest == LEDGERSTONE:
            _assert_why_is_answered(story)

        story.move_to(GUEST, *HOME)
        story.elect(GUEST)
        story.progress("the guest leads")
        wait_until(story.is_whole, "those at home follow the guest")

        # It hands over what it leads, and takes it back.
        story.cluster.stop(GUEST)
        story.progress("the guest is away")
        story.cluster.start(GUEST)
        wait_until(story.is_whole, "the guest has caught up", 60.0)
        story.elect(GUEST)
        story.progress("the guest leads again")

        story.move_to(*HOME, GUEST)
        story.elect(HOME[0])
        story.progress("the guest follows again")
        assert story.end() == []
