"""Throttle times beside Apache Kafka's own quota classes, from its jar. Needs Java: `make
kafka-reads`."""

import shutil

import pytest

from golden.quota_oracle import ask_kafka, random_steps
from tests.oracles.quota_steps import OurQuotas

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java"),
]


@pytest.mark.parametrize(
    ("seed", "samples", "window_s", "count"),
    [(1, 11, 1, 120_000), (2, 2, 1, 20_000), (3, 5, 3, 20_000), (4, 1, 1, 20_000)],
)
def test_random_steps_over_random_entities_give_kafkas_throttle_times(
    seed: int, samples: int, window_s: int, count: int
) -> None:
    steps = list(random_steps(seed, count))

    answers = ask_kafka(steps, samples=samples, window_s=window_s)
    ours = OurQuotas(samples, window_s)

    different = [
        (step, kafka, own)
        for step, kafka in zip(steps, answers, strict=True)
        if (own := ours.answer(step)) != kafka
    ]
    assert different == []
