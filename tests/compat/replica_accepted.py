"""Where answers of our brokers in a cluster may differ from Apache Kafka's, and why."""

from tests.compat.both_brokers import Difference


def accepted(name: str, difference: Difference) -> str | None:
    """The reason; None if there is none."""
    if difference.path.endswith("error_message"):
        return "each has words of its own, or none"
    return None
