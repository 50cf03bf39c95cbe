"""DescribeCluster, api key 60. Pure.

Made from schemas/describe_cluster.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class DescribeClusterRequest(ApiMessage):
    api_key: ClassVar[int] = 60
    name: ClassVar[str] = "DescribeCluster"

    __slots__ = (
        "include_cluster_authorized_operations",
        "endpoint_type",
        "include_fenced_brokers",
    )

    def __init__(
        self,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.include_fenced_brokers = include_fenced_brokers


class DescribeClusterBroker(Struct):
    __slots__ = (
        "broker_id",
        "host",
        "port",
        "rack",
        "is_fenced",
    )

    def __init__(
        self,
        broker_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        is_fenced: bool = False,
    ) -> None:
        self.broker_id = broker_id
        self.host = host
        self.port = port
        self.rack = rack
        self.is_fenced = is_fenced


class DescribeClusterResponse(ApiMessage):
    api_key: ClassVar[int] = 60
    name: ClassVar[str] = "DescribeCluster"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "endpoint_type",
        "cluster_id",
        "controller_id",
        "brokers",
        "cluster_authorized_operations",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: list[DescribeClusterBroker] = ABSENT,
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.endpoint_type = endpoint_type
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers = [] if brokers is ABSENT else brokers
        self.cluster_authorized_operations = cluster_authorized_operations


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
