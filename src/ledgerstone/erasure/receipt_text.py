"""A receipt for people to read: the same facts, no more. Grade P.

What was signed is the JSON; this text is made from it and proves nothing by itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_STAGES = (
    "scheduled", "requested", "searched", "tombstoned", "stamped", "removed", "unlinked",
    "verified",
)  # fmt: skip


def render(content: Mapping[str, Any]) -> str:
    """`content` is that of a receipt that was verified."""
    return (
        "\n".join([*_head(content), *_course(content), *_proof(content), *_limits(content)]) + "\n"
    )


def _head(content: Mapping[str, Any]) -> Iterator[str]:
    yield f"Erasure {content['id']}"
    yield f"  topic         {content['topic']} ({content['topic_id']})"
    yield f"  cluster       {content['cluster_id']}"
    yield f"  key           HMAC-SHA256 {content['key']['hmac_sha256']}"
    yield f"  reason        {_line(content['reason'])}"
    yield f"  requested     {content['requested_at']} by {_line(content['requested_by'])}"
    if content["deadline"] is not None:
        met = "met" if content["met_deadline"] else "MISSED"
        yield f"  deadline      {content['deadline']}, {met}"
    yield f"  issued        {content['issued_at']}"


def _course(content: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield "Stages"
    for stage in _STAGES:
        if stage in content["stages"]:
            yield f"  {stage:<13} {content['stages'][stage]}"
    yield ""
    yield "Tombstones"
    for each in content["tombstones"]:
        yield f"  partition {each['partition']}, offset {each['offset']}, {each['at']}"


def _proof(content: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield "Scans"
    for each in content["replicas"]:
        yield (
            f"  node {each['node_id']}: {each['files']} files, {each['bytes']} bytes, "
            f"{each['records']} records, {each['residue']} residue, {each['mentions']} mentions"
        )
        yield f"    {each['scan_started_at']} to {each['scan_ended_at']}, digest {each['digest']}"
    if any(each["mentions"] for each in content["replicas"]):
        yield f"  mentions are {content['replicas'][0]['mentions_are']}"
    yield from _spans("Written after the erasure", content["recreated"])
    yield from _spans("The same key in other topics", content["other_topics"])
    if content["downstream"]:
        yield ""
        yield "Downstream"
    for each in content["downstream"]:
        word = f"{_line(each['verifier'])}, {_line(each['output'])}: {each['verdict']}"
        yield f"  {word} ({_line(each['evidence'])}), {each['at']}"


def _spans(title: str, spans: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if spans:
        yield ""
        yield title
    for each in spans:
        yield (
            f"  {each['topic']}-{each['partition']}: {each['records']} records "
            f"({each['tombstones']} tombstones), offsets {each['first_offset']} to "
            f"{each['last_offset']}"
        )


def _limits(content: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield "Not covered"
    for text in content["not_covered"]:
        yield f"  - {_line(text)}"
    yield ""
    yield str(content["statement"])
    yield f"Signed with Ed25519, public key {content['public_key']}."


def _line(text: str) -> str:
    """What people wrote, on one line and without codes that move a terminal's cursor."""
    return "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)
