"""What kind of value each field of a receipt holds. Grade P.

A signature says who wrote something, not that it makes sense: whoever checks or shows a receipt may
rely on these kinds. A field that is not listed here is left to others.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

# A kind is a type, a tuple of types of which one must do, (kind, null), [kind] for a list of it,
# {str: kind} for any names, or a mapping from the names that must be there to their kinds.
_MAYBE_TEXT: Final = (str, type(None))
_SPAN: Final = {
    "topic": str,
    "partition": int,
    "first_offset": int,
    "last_offset": int,
    "records": int,
    "tombstones": int,
}
_REPLICA: Final = {
    "node_id": int,
    "scan_started_at": str,
    "scan_ended_at": str,
    "files": int,
    "bytes": int,
    "digest": str,
    "records": int,
    "residue": int,
    "mentions": int,
    "mentions_are": str,
}
KINDS: Final[Mapping[str, Any]] = {
    "version": int,
    "id": str,
    "cluster_id": str,
    "topic": str,
    "topic_id": str,
    "key": {"hmac_sha256": str},
    "reason": str,
    "requested_by": str,
    "requested_at": str,
    "deadline": _MAYBE_TEXT,
    "met_deadline": (bool, type(None)),
    "issued_at": str,
    "stages": {str: str},
    "tombstones": [{"partition": int, "offset": int, "at": str}],
    "replicas": [_REPLICA],
    "recreated": [_SPAN],
    "other_topics": [_SPAN],
    "downstream": [{"verifier": str, "output": str, "verdict": str, "evidence": str, "at": str}],
    "not_covered": [str],
    "statement": str,
    "public_key": str,
    "signature": str,
}

KINDS_2: Final[Mapping[str, Any]] = {
    **KINDS,
    "kind": str,
    "clock": str,
    "searched": (
        {
            "started_at": str,
            "ended_at": str,
            "files": int,
            "bytes": int,
            "records": int,
            "partitions": int,
        },
        type(None),
    ),
    "replicas": [
        {
            **_REPLICA,
            "kinds": [{"kind": str, "files": int, "bytes": int}],
            "partitions": [{"partition": int, "files": int, "bytes": int, "digest": str}],
            "partitions_in_all": int,
            "records_are": str,
            "recreated_records": int,
            "other_topic_records": int,
            "names": [{"what": str, "hits": int}],
            "names_are": str,
            "accepted": int,
        }
    ],
    "exceptions": [
        {
            "file": str,
            "hits": int,
            "accepted_hits": int,
            "trouble": str,
            "reason": str,
            "by": str,
            "at": str,
        }
    ],
}


KINDS_3: Final[Mapping[str, Any]] = {
    **KINDS_2,
    "downstream": [
        {
            "verifier": str,
            "group": str,
            "output": str,
            "verdict": str,
            "evidence": str,
            "at": str,
        }
    ],
    "outputs": [
        {
            "kind": str,
            "name": str,
            "status": str,
            "reason": str,
            "detail": str,
            "partition": (int, type(None)),
            "tombstone_offset": (int, type(None)),
            "committed_offset": (int, type(None)),
        }
    ],
    "outputs_are": str,
    "outputs_in_all": int,
    "outputs_not_verified": int,
}
_MAYBE_NODE: Final = (int, type(None))
KINDS_4: Final[Mapping[str, Any]] = {
    **KINDS_3,
    "searched": ({**KINDS_2["searched"][0], "node_ids": [int]}, type(None)),
    "replicas": [
        {
            **KINDS_2["replicas"][0],
            "incarnation_id": _MAYBE_TEXT,
            "broker_epoch": (int, type(None)),
            "directory_ids": [str],
            "hosted": [
                {
                    "partition": int,
                    "partition_epoch": int,
                    "leader_epoch": int,
                    "log_start_offset": int,
                    "log_end_offset": int,
                }
            ],
            "hosted_in_all": int,
        }
    ],
    "exceptions": [{**KINDS_2["exceptions"][0], "node_id": _MAYBE_NODE}],
    "lost_brokers": [
        {"broker_id": int, "directory_ids": [str], "reason": str, "by": str, "at": str}
    ],
}
SUPPLEMENT_KINDS: Final[Mapping[str, Any]] = {
    "version": int,
    "kind": str,
    "id": str,
    "number": int,
    "cluster_id": str,
    "topic": str,
    "topic_id": str,
    "receipt_sha256": str,
    "clock": str,
    "verifier": str,
    "group": str,
    "covers": [{"kind": str, "name": str}],
    "verdict": str,
    "words": [{"output": str, "verdict": str, "evidence": str, "at": str}],
    "issued_at": str,
    "statement": str,
    "public_key": str,
    "signature": str,
}
_KINDS_BY_VERSION: Final = {1: KINDS, 2: KINDS_2, 3: KINDS_3, 4: KINDS_4}


def odd_supplement_fields(content: Mapping[str, Any]) -> list[str]:
    return [
        text for name, kind in SUPPLEMENT_KINDS.items() for text in _odd(content[name], kind, name)
    ]


def odd_fields(content: Mapping[str, Any]) -> list[str]:
    """What is of another kind than it should be, each in words; empty where all is well."""
    return [
        text
        for name, kind in _KINDS_BY_VERSION[content["version"]].items()
        if name in content
        for text in _odd(content[name], kind, name)
    ]


def _odd(value: object, kind: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - a kind, see above
    if isinstance(kind, type):
        # A bool is an int to Python, not to a reader.
        if type(value) is not kind:
            yield f"{path} is {_name(value)}, not {_named(kind)}"
    elif isinstance(kind, tuple) and not isinstance(kind[0], type):
        if value is not None:
            yield from _odd(value, kind[0], path)
    elif isinstance(kind, tuple):
        if type(value) not in kind:
            yield f"{path} is {_name(value)}, not {' or '.join(map(_named, kind))}"
    elif isinstance(kind, list):
        if not isinstance(value, list):
            yield f"{path} is {_name(value)}, not a list"
            return
        for index, each in enumerate(value):
            yield from _odd(each, kind[0], f"{path}[{index}]")
    elif not isinstance(value, dict):
        yield f"{path} is {_name(value)}, not an object"
    elif str in kind:
        for name, each in value.items():
            yield from _odd(each, kind[str], f"{path}.{name[:40]}")
    else:
        for name, each in kind.items():
            if name not in value:
                yield f"{path}.{name} is missing"
            else:
                yield from _odd(value[name], each, f"{path}.{name}")


_NAMES: Final = {
    str: "a text",
    int: "a whole number",
    float: "a fraction",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def _name(value: object) -> str:
    return _named(type(value))


def _named(kind: type) -> str:
    return _NAMES.get(kind, kind.__name__)
