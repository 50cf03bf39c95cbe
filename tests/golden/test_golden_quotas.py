"""What Apache Kafka's own quota classes answered, step by step: ours answer the same.

`kafka_quotas.txt` holds a step and Kafka's answer on each line; `python -m golden.quota_oracle`
under tools/ writes it anew. Many more steps are compared where there is Java:
tests/compat/test_quotas_like_kafka.py.
"""

from pathlib import Path

from tests.oracles.quota_steps import OurQuotas

TRACE = Path(__file__).with_name("kafka_quotas.txt")


def test_every_answer_is_kafkas() -> None:
    ours = OurQuotas()
    compared = throttled = 0

    for line in TRACE.read_text(encoding="utf-8").splitlines():
        *step, answer = line.split("\t")
        assert ours.answer(step) == answer, line
        compared += 1
        throttled += answer not in ("ok", "0", "0 0 0")

    assert compared == 4000
    assert throttled > 700
