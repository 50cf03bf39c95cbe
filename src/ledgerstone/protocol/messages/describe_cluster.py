"""DescribeCluster, api key 60. Pure.

Made from schemas/describe_cluster.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class DescribeClusterRequest(ApiMessage):
    api_key: ClassVar[int] = 60
    name: ClassVar[str] = "DescribeCluster"

    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1
    include_fenced_brokers: bool = False


@dataclass(slots=True, eq=False, repr=False)
class DescribeClusterBroker(Struct):
    broker_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    is_fenced: bool = False


@dataclass(slots=True, eq=False, repr=False)
class DescribeClusterResponse(ApiMessage):
    api_key: ClassVar[int] = 60
    name: ClassVar[str] = "DescribeCluster"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1
    cluster_id: str = ""
    controller_id: int = -1
    brokers: list[DescribeClusterBroker] = field(default_factory=list)
    cluster_authorized_operations: int = -2147483648


SCHEMA: Final = """\
api 60 DescribeCluster
request v0-2 flexible 0+
    include_cluster_authorized_operations: bool
    endpoint_type: i8 = 1 @1+
    include_fenced_brokers: bool @2+
response v0-2 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    error_message: str? = null
    endpoint_type: i8 = 1 @1+
    cluster_id: str
    controller_id: i32 = -1
    brokers: [DescribeClusterBroker]
        broker_id: i32
        host: str
        port: i32
        rack: str? = null
        is_fenced: bool @2+
    cluster_authorized_operations: i32 = -2147483648
"""
