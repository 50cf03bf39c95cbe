"""The answer to "where is this key": places as people and programs read them. Grade P.

The latest record of a key in a partition decides what the key is there: live, or deleted by a
tombstone; everything before it is superseded. Files that wait for their end are told apart.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ledgerstone.erasure.scan_plan import Place, SearchReport
from ledgerstone.storage.filenames import parse_file_name

LIVE: Final = "live"
SUPERSEDED: Final = "superseded"
TOMBSTONE: Final = "tombstone"


def places_json(report: SearchReport, print_index: int = 0) -> dict[str, Any]:
    """Of one key, sorted by partition, offset, file and position."""
    own = [place for place in report.places if place.print_index == print_index]
    spans = report.spans_of(print_index)
    latest = {(span.topic, span.partition): span.last_offset for span in spans}
    return {
        "places": [_place_json(place, latest[place.topic, place.partition]) for place in own],
        "partitions": [span._asdict() for span in spans],
        "records": sum(span.records for span in spans),
        "truncated": len(own) < sum(span.records for span in spans),
        "scanned_bytes": report.scanned_bytes,
        "trouble": report.trouble,
    }


def replicas_json(
    by_broker: Mapping[int, SearchReport], unseen: Sequence[str], print_index: int = 0
) -> dict[str, Any]:
    """As every replica has it: each place with its broker. `unseen` says of which there is no
    word, and why."""
    answers = {
        broker: places_json(report, print_index) for broker, report in sorted(by_broker.items())
    }
    troubles = [*unseen]
    troubles += [
        f"broker {id_}: {one['trouble']}" for id_, one in answers.items() if one["trouble"]
    ]
    return {
        "places": _with_broker(answers, "places"),
        "partitions": _with_broker(answers, "partitions"),
        "records": sum(each["records"] for each in answers.values()),
        "truncated": any(each["truncated"] for each in answers.values()),
        "scanned_bytes": sum(each["scanned_bytes"] for each in answers.values()),
        "trouble": "; ".join(troubles) or None,
    }


def _with_broker(answers: Mapping[int, Mapping[str, Any]], name: str) -> list[dict[str, Any]]:
    return [{"broker": id_, **each} for id_, one in answers.items() for each in one[name]]


def _place_json(place: Place, latest_offset: int) -> dict[str, Any]:
    is_latest = place.offset == latest_offset
    parsed = parse_file_name(place.file)
    suffix = parsed.suffix.removeprefix(".") if parsed is not None else ""
    return {
        "partition": place.partition,
        "offset": place.offset,
        "state": SUPERSEDED if not is_latest else TOMBSTONE if place.is_tombstone else LIVE,
        "is_tombstone": place.is_tombstone,
        "timestamp_ms": place.timestamp_ms,
        "file": place.file,
        "file_state": suffix or LIVE,
        "position": place.position,
        "codec": place.codec,
        "erasure_id": place.erasure_id,
    }
