"""ErasureWork, api key 30100. Pure.

Made from schemas/erasure_work.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage


class ErasureWorkRequest(ApiMessage):
    api_key: ClassVar[int] = 30100
    name: ClassVar[str] = "ErasureWork"

    __slots__ = (
        "cluster_id",
        "broker_id",
        "broker_epoch",
        "journal_epoch",
        "kind",
        "job",
        "position",
        "content",
    )

    def __init__(
        self,
        cluster_id: str = "",
        broker_id: int = 0,
        broker_epoch: int = 0,
        journal_epoch: int = 0,
        kind: int = 0,
        job: int = 0,
        position: int = 0,
        content: bytes = b"",
    ) -> None:
        self.cluster_id = cluster_id
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.journal_epoch = journal_epoch
        self.kind = kind
        self.job = job
        self.position = position
        self.content = content


class ErasureWorkResponse(ApiMessage):
    api_key: ClassVar[int] = 30100
    name: ClassVar[str] = "ErasureWork"

    __slots__ = (
        "error_code",
        "error_message",
        "broker_id",
        "incarnation_id",
        "broker_epoch",
        "size",
        "content",
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        broker_id: int = 0,
        incarnation_id: bytes = ZERO_UUID,
        broker_epoch: int = 0,
        size: int = 0,
        content: bytes = b"",
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.broker_id = broker_id
        self.incarnation_id = incarnation_id
        self.broker_epoch = broker_epoch
        self.size = size
        self.content = content


SCHEMA: Final = """\
api 30100 ErasureWork
request v0-0 flexible 0+
    cluster_id: str
    broker_id: i32
    broker_epoch: i64
    journal_epoch: i32
    kind: i8
    job: i64
    position: i64
    content: bytes
response v0-0 flexible 0+
    error_code: i16
    error_message: str? = null
    broker_id: i32
    incarnation_id: uuid
    broker_epoch: i64
    size: i64
    content: bytes
"""
