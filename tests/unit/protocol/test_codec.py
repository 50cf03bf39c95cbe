"""What a codec must do beyond giving the right bytes: views, pieces, tags, tails."""

from typing import cast

import pytest

from ledgerstone.errors import InvariantViolation, UnsupportedVersion
from ledgerstone.fs import File, FileSlice
from ledgerstone.protocol.codec import (
    decode,
    decode_request,
    decode_response,
    encode,
    encode_request,
    encode_response,
)
from ledgerstone.protocol.messages.fetch import (
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)
from ledgerstone.protocol.messages.heartbeat import HeartbeatRequest
from ledgerstone.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ledgerstone.protocol.messages.produce import (
    ProduceCurrentLeader,
    ProducePartitionData,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
    ProduceTopicResponse,
)
from ledgerstone.protocol.pieces import JOIN_BELOW_BYTES, Payload, Records, total_size
from ledgerstone.protocol.wire import MalformedMessage

BATCH = bytes(range(200))


def file_slice(size: int) -> FileSlice:
    """A slice of a missing file: reading it fails."""
    return FileSlice(cast("File", None), 0, size)


def produce(records: Records) -> ProduceRequest:
    partition = ProducePartitionData(index=7, records=records)
    return ProduceRequest(
        acks=-1, timeout_ms=500, topic_data=[ProduceTopicData(name="t", partition_data=[partition])]
    )


def fetched(*records: Payload) -> FetchResponse:
    partitions = [
        FetchPartitionResponse(partition_index=index, records=each)
        for index, each in enumerate(records)
    ]
    return FetchResponse(responses=[FetchTopicResponse(partitions=partitions)])


def one_piece(message: FetchResponse | ProduceRequest | MetadataRequest, version: int) -> bytes:
    (piece,) = encode(message, version)
    assert isinstance(piece, bytes)
    return piece


def test_records_come_out_as_a_writable_view_of_the_frame() -> None:
    frame = bytearray(one_piece(produce(BATCH), 9))

    request, _ = decode(ProduceRequest, 9, memoryview(frame))
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    records[0] = 0xEE

    assert bytes(records[1:]) == BATCH[1:]
    assert frame[frame.index(BATCH[1:]) - 1] == 0xEE


def test_slices_of_files_travel_as_pieces_and_are_counted_in_the_lengths() -> None:
    first, second = file_slice(1000), file_slice(70_000)
    plain = encode_response(fetched(bytes(1000), bytes(70_000)), 16)

    pieces = encode_response(fetched(first, second), 16)

    assert [each for each in pieces if isinstance(each, FileSlice)] == [first, second]
    assert len(pieces) == 5
    assert total_size(pieces) == total_size(plain)


def test_records_of_one_partition_may_be_several_pieces() -> None:
    pieces = encode_response(fetched([b"head", file_slice(50), b"tail"]), 16)
    joined = b"".join(bytes(50) if isinstance(each, FileSlice) else each for each in pieces)  # type: ignore[misc]

    response, _ = decode(FetchResponse, 16, joined)

    records = response.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert bytes(records) == b"head" + bytes(50) + b"tail"


def test_small_buffers_are_joined_and_large_ones_are_not_copied() -> None:
    small, large = bytes(JOIN_BELOW_BYTES - 1), memoryview(bytes(JOIN_BELOW_BYTES))

    pieces = encode_response(fetched(small, large, small), 12)

    assert len(pieces) == 3
    assert pieces[1] is large


def test_empty_slice_of_a_file_makes_no_piece() -> None:
    assert encode_response(fetched(file_slice(0), b""), 12) == encode_response(
        fetched(b"", b""), 12
    )


def test_empty_records_are_not_null_records() -> None:
    empty = one_piece(produce(b""), 9)
    null = one_piece(produce(None), 9)

    assert empty != null
    assert decode(ProduceRequest, 9, null)[0].topic_data[0].partition_data[0].records is None


def test_field_the_version_does_not_have_is_left_out_and_comes_back_as_its_default() -> None:
    sent = FetchRequest(session_id=5, rack_id="r")

    received = decode_request(1, 4, b"".join(encode_request(sent, 4)))  # type: ignore[arg-type]

    assert isinstance(received, FetchRequest)
    assert (received.session_id, received.rack_id) == (0, "")


def test_tagged_field_at_its_default_is_not_sent() -> None:
    def encoded(leader: ProduceCurrentLeader | None) -> int:
        partition = ProducePartitionResponse(current_leader=leader)
        topic = ProduceTopicResponse(partition_responses=[partition])
        return total_size(encode(ProduceResponse(responses=[topic]), 10))

    assert encoded(None) == encoded(ProduceCurrentLeader())
    assert encoded(ProduceCurrentLeader(leader_id=1)) == encoded(None) + 11


def test_unknown_tags_are_skipped() -> None:
    fields = (
        b"\x01" + bytes(4) + b"\x01\x00"
    )  # Heartbeat v4: no group, generation, member, instance
    tags = b"\x02" + b"\x05\x03abc" + b"\x80\x01\x80\x01" + bytes(128)

    plain, _ = decode(HeartbeatRequest, 4, fields + b"\x00")
    tagged, end = decode(HeartbeatRequest, 4, fields + tags)

    assert tagged == plain
    assert end == len(fields) + len(tags)


def test_bytes_after_the_message_are_tolerated() -> None:
    body = one_piece(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)

    message, end = decode(MetadataRequest, 12, body + b"tail")

    assert message.topics == [MetadataRequestTopic(name="t")]
    assert end == len(body)


def test_librdkafka_metadata_v9_with_a_four_byte_count_is_read_as_all_topics() -> None:
    body = bytes.fromhex("0000000001000000")

    message = decode_request(3, 9, body)

    assert isinstance(message, MetadataRequest)
    assert message.topics is None
    assert message.allow_auto_topic_creation is False


@pytest.mark.parametrize(("api_key", "version"), [(0, 2), (0, 14), (4, 0), (999, 0), (-1, 0)])
def test_key_or_version_that_is_not_known_is_refused(api_key: int, version: int) -> None:
    with pytest.raises(UnsupportedVersion):
        decode_response(api_key, version, b"")


def test_malformed_message_says_which_field_and_where() -> None:
    body = one_piece(produce(BATCH), 9)

    with pytest.raises(MalformedMessage) as caught:
        decode(ProduceRequest, 9, body[:-50])

    assert caught.value.field == "topic_data.partition_data.records"
    assert (caught.value.message, caught.value.version) == ("ProduceRequest", 9)
    assert caught.value.position == body.index(BATCH)


def test_null_where_the_version_has_none_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match=r"topic_data, position \d+: null"):
        decode(ProduceRequest, 9, b"\x00" + bytes(6) + b"\x00" + b"\x00")


@pytest.mark.parametrize(
    ("message", "version", "field"),
    [
        (ProduceRequest(acks=40_000), 9, "topic_data"),
        (ProduceRequest(topic_data=None), 9, "topic_data"),  # type: ignore[arg-type]
        (MetadataRequest(topics=None), 0, "topics"),
        (MetadataRequest(topics=[MetadataRequestTopic(name="x" * 40_000)]), 5, "topics.name"),
    ],
)
def test_message_that_cannot_be_sent_is_our_own_error(
    message: ProduceRequest | MetadataRequest, version: int, field: str
) -> None:
    with pytest.raises(InvariantViolation, match=f"field {field}"):
        encode(message, version)


def test_string_longer_than_kafka_allows_is_malformed_where_its_length_has_room_for_it() -> None:
    # It would be read here, and then not fit into the records of groups.
    body = one_piece(MetadataRequest(topics=[MetadataRequestTopic(name="t" * 32_767)]), 12)
    assert decode_request(3, 12, memoryview(body), 0)
    body = one_piece(MetadataRequest(topics=[MetadataRequestTopic(name="t" * 32_768)]), 12)
    with pytest.raises(MalformedMessage, match="a string of 32768 bytes"):
        decode_request(3, 12, memoryview(body), 0)
