"""Checks that a table belongs to its topic. Shell: asks the cluster and the table.

Offsets mean nothing without their topic. A topic that was deleted and created again has the same
name; a table that continued from its old offsets would keep rows of the old topic and lack some of
the new. So the table records the id of its topic before it applies anything.
"""

from ledgerstone.client.blocking import Client
from ledgerstone.pipeline.definition import Pipeline, TargetType
from ledgerstone.pipeline.errors import TopicChanged
from ledgerstone.pipeline.tables.target import Followed, TableTarget
from ledgerstone.spark.errors import said_recreated
from ledgerstone.uuid_text import ZERO_UUID, uuid_to_text


def topic_now(client: Client, topic: str) -> Followed | None:
    """None if the brokers have no topic ids."""
    topic_id = client.topic(topic).topic_id
    return None if topic_id == ZERO_UUID else Followed(topic, uuid_to_text(topic_id))


def check_followed(pipeline: Pipeline, target: TableTarget, now: Followed | None) -> None:
    """Raises TopicChanged if the table's rows come from another topic than `now`."""
    before = target.followed()
    if pipeline.source.topics:
        before = _of_topic(pipeline, before)
    if before is None or now is None or before == now:
        return
    if before.topic == now.topic and not target.positions():
        return  # No record of the old topic was applied.
    if before.topic != now.topic and not any(piece.num_rows for piece in target.rows()):
        return
    if before.topic != now.topic:
        said = f"the table holds what was in topic {before.topic}, and source.topic is {now.topic}"
    else:
        said = said_recreated(now.topic, before.topic_id, now.topic_id)
    raise TopicChanged(f"{said}. The table was not changed. {how_to_begin_anew(pipeline)}")


def begin_to_follow(pipeline: Pipeline, target: TableTarget, now: Followed | None) -> None:
    """As above; a table without a recorded topic, perhaps from an older version, records it now."""
    check_followed(pipeline, target, now)
    before = target.followed()
    if now is not None and pipeline.source.topics:
        now = _listed({**_listing(before), now.topic: now.topic_id})
    if now is not None and before != now:
        target.follow(now)


# A table of several topics records all of them in one place, in the order they came.


def _listing(followed: Followed | None) -> dict[str, str]:
    if followed is None:
        return {}
    return dict(zip(followed.topic.split(","), followed.topic_id.split(","), strict=True))


def _listed(ids: dict[str, str]) -> Followed:
    return Followed(",".join(ids), ",".join(ids.values()))


def _of_topic(pipeline: Pipeline, followed: Followed | None) -> Followed | None:
    """Refuses a table with rows of a topic that the definition no longer names: they would stay
    for ever."""
    ids = _listing(followed)
    for topic in ids:
        if topic not in pipeline.source.topics:
            raise TopicChanged(
                f"the table also holds what was in topic {topic}, which source.topics does not "
                f"name. The table was not changed. {how_to_begin_anew(pipeline)}"
            )
    topic = pipeline.source.topic
    return Followed(topic, ids[topic]) if topic in ids else None


def how_to_begin_anew(pipeline: Pipeline) -> str:
    target = pipeline.target
    match target.type:
        case TargetType.SQLITE | TargetType.DUCKDB:
            away = f"drop table {target.name} in {target.location}"
        case TargetType.POSTGRES | TargetType.SQL:
            away = f"drop table {target.name}"
        case TargetType.DELTA | TargetType.PARQUET:
            away = f"remove the directory {target.location}"
        case TargetType.ICEBERG:
            away = f"remove the directory {target.location}"
            if target.catalog:
                away = f"drop table {target.name} in the catalog and {away}"
    return f"To start over, {away}, or name another table in the definition, and run again"
