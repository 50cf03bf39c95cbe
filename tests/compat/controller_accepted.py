"""Where our controller's answers may differ from Apache Kafka's, and why."""

from tests.compat.both_brokers import Difference


def accepted(name: str, difference: Difference) -> str | None:
    """The reason; None if there is none."""
    if difference.path.endswith("error_message"):
        return "each has words of its own, or none"
    if name == "register: without group.version":
        return "our format does not finalize it: our brokers do not serve its groups"
    return None
