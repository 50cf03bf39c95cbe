"""Where our answers about the quorum may differ from Apache Kafka's, and why."""

from typing import Final

UNKNOWN_SERVER_ERROR: Final = -1


def accepted_answer(label: str, error_of_kafka: object) -> str | None:
    """Why the whole answer may differ; None if it may not."""
    if label.startswith("fetch: ") and label.endswith(" v12"):
        return "Kafka's quorum knows its topic by id only and refuses a Fetch by name; we serve it"
    if label.startswith("fetch snapshot: ") and error_of_kafka == UNKNOWN_SERVER_ERROR:
        return "Kafka cannot encode its error: the answer lacks records, which may not be null"
    return None


def accepted_field(label: str, path: str, kafka: object, ours: object) -> str | None:
    """Why this field may differ; None if it may not."""
    if path == "error_message" and (kafka, ours) == ("", "words"):
        return "Kafka refuses without a word; we say why"
    if label.startswith("describe: of a follower") and path.endswith(
        ("leader_id", "leader_epoch", "high_watermark")
    ):
        return "beside the error, Kafka leaves zeros; we name the leader that we know"
    return None
