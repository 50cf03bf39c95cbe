"""Is this table of this very topic? Shell: asks the cluster and the table.

Offsets mean nothing without the topic they are of. One that was deleted and created again has the
same name, and a table that went on from its offsets would keep rows of the old one and lack some
of the new. The table therefore notes the id of its topic before it applies anything of it.
"""

from ledgerstone.client.blocking import Client
from ledgerstone.pipeline.definition import Pipeline, TargetType
from ledgerstone.pipeline.errors import TopicChanged
from ledgerstone.pipeline.tables.target import Followed, TableTarget
from ledgerstone.spark.errors import said_recreated
from ledgerstone.uuid_text import ZERO_UUID, uuid_to_text


def topic_now(client: Client, topic: str) -> Followed | None:
    """None where brokers give topics no ids."""
    topic_id = client.topic(topic).topic_id
    return None if topic_id == ZERO_UUID else Followed(topic, uuid_to_text(topic_id))


def check_followed(pipeline: Pipeline, target: TableTarget, now: Followed | None) -> None:
    """Raises TopicChanged if what the table holds is of another topic than `now`."""
    before = target.followed()
    if before is None or now is None or before == now:
        return
    if before.topic == now.topic and not target.positions():
        return  # Nothing of the old one was applied.
    if before.topic != now.topic and not any(piece.num_rows for piece in target.rows()):
        return
    if before.topic != now.topic:
        said = f"the table holds what was in topic {before.topic}, and source.topic is {now.topic}"
    else:
        said = said_recreated(now.topic, before.topic_id, now.topic_id)
    raise TopicChanged(f"{said}. The table was not changed. {how_to_begin_anew(pipeline)}")


def begin_to_follow(pipeline: Pipeline, target: TableTarget, now: Followed | None) -> None:
    """As above; and a table that is of no topic yet, or of an older version of us, notes it."""
    check_followed(pipeline, target, now)
    if now is not None and target.followed() != now:
        target.follow(now)


def how_to_begin_anew(pipeline: Pipeline) -> str:
    target = pipeline.target
    match target.type:
        case TargetType.SQLITE:
            away = f"drop table {target.name} in {target.location}"
        case TargetType.POSTGRES:
            away = f"drop table {target.name}"
        case TargetType.DELTA | TargetType.PARQUET:
            away = f"remove the directory {target.location}"
    return f"To begin anew, {away}, or name another table in the definition, and run again"
