"""A receipt for people to read: the same facts, no more. Grade P.

What was signed is the JSON; this text is made from it and proves nothing by itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ledgerstone.erasure.receipt_words import KIND_NOT_FOUND, VIRTUAL_CLOCK

_STAGES = (
    "scheduled", "requested", "searched", "tombstoned", "stamped", "removed", "unlinked",
    "verified", "not_found",
)  # fmt: skip


def render(content: Mapping[str, Any]) -> str:
    """`content` is that of a receipt that was verified."""
    return (
        "\n".join([*_head(content), *_course(content), *_proof(content), *_limits(content)]) + "\n"
    )


def _head(content: Mapping[str, Any]) -> Iterator[str]:
    is_found = content.get("kind") != KIND_NOT_FOUND
    yield f"{'Erasure' if is_found else 'Key not found, erasure'} {content['id']}"
    yield f"  topic         {content['topic']} ({content['topic_id']})"
    yield f"  cluster       {content['cluster_id']}"
    yield f"  key           HMAC-SHA256 {content['key']['hmac_sha256']}"
    yield f"  reason        {_line(content['reason'])}"
    yield f"  requested     {content['requested_at']} by {_line(content['requested_by'])}"
    if content["deadline"] is not None:
        met = "met" if content["met_deadline"] else "MISSED"
        yield f"  deadline      {content['deadline']}, {met}"
    yield f"  issued        {content['issued_at']}"
    if content.get("clock") == VIRTUAL_CLOCK:
        yield "  clock         VIRTUAL: the times here were set by hand"


def _course(content: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield "Stages"
    for stage in _STAGES:
        if stage in content["stages"]:
            yield f"  {stage:<13} {content['stages'][stage]}"
    if content["tombstones"]:
        yield ""
        yield "Tombstones"
    for each in content["tombstones"]:
        yield f"  partition {each['partition']}, offset {each['offset']}, {each['at']}"


def _proof(content: Mapping[str, Any]) -> Iterator[str]:
    yield from _search(content.get("searched"))
    if content["replicas"]:
        yield ""
        yield "Scans"
    for each in content["replicas"]:
        yield (
            f"  node {each['node_id']}: {each['files']} files, {each['bytes']} bytes, "
            f"{each['records']} records, {each['residue']} residue, {each['mentions']} mentions"
        )
        yield f"    {each['scan_started_at']} to {each['scan_ended_at']}, digest {each['digest']}"
        yield from _life(each)
        yield from _details(each)
    if any(each["mentions"] for each in content["replicas"]):
        yield f"  mentions are {content['replicas'][0]['mentions_are']}"
    if any(each.get("names") for each in content["replicas"]):
        yield f"  names are {content['replicas'][0]['names_are']}"
    yield from _exceptions(content.get("exceptions", ()))
    yield from _lost_brokers(content.get("lost_brokers", ()))
    yield from _spans("Written after the erasure", content["recreated"])
    yield from _spans("The same key in other topics", content["other_topics"])
    if content["downstream"]:
        yield ""
        yield "Downstream"
    for each in content["downstream"]:
        word = f"{_line(each['verifier'])}, {_line(each['output'])}: {each['verdict']}"
        yield f"  {word} ({_line(each['evidence'])}), {each['at']}"
    yield from _outputs(content)


def _outputs(content: Mapping[str, Any]) -> Iterator[str]:
    """What receipts tell since version 3."""
    if not content.get("outputs_in_all"):
        return
    yield ""
    yield (
        f"Known outputs: {content['outputs_in_all']}, "
        f"{content['outputs_not_verified']} of them not verified"
    )
    for each in content["outputs"]:
        yield f"  {output_line(each)}"
    more = content["outputs_in_all"] - len(content["outputs"])
    if more > 0:
        yield f"  and {more} more groups, not verified"


def output_line(output: Mapping[str, Any]) -> str:
    """One known output: its name, how it stands, and why."""
    status = {"verified": "verified", "read": "read past the tombstone"}.get(output["status"])
    name = f"{output['kind']} {_line(output['name'])}"
    return f"{name}: {status or f'NOT VERIFIED, {why_not_verified(output)}'}"


def why_not_verified(output: Mapping[str, Any]) -> str:
    tombstone = (
        f"tombstone in partition {output['partition']} at offset {output['tombstone_offset']}"
    )
    committed = output["committed_offset"]
    at = "no offset" if committed is None else f"offset {committed}"
    match output["reason"]:
        case "never_answered":
            return "it never answered"
        case "refused":
            return f"it was asked and gave no evidence: {_line(output['detail'])}"
        case "could_not_tell" | "unknown":
            return "it could not tell"
        case "residue":
            return "it found the key"
        case "missed_tombstone":
            return f"it had committed {at} when the {tombstone} was removed"
        case "offsets_deleted":
            return f"its offsets were deleted before it had read the {tombstone}"
        case "first_seen_later" if output["partition"] is not None:
            return f"it was first seen after the {tombstone} had been removed"
        case "first_seen_later":
            return "it was not known as a group of the topic"
        case reason:
            return str(reason).replace("_", " ")


def _search(searched: Mapping[str, Any] | None) -> Iterator[str]:
    if searched is None:
        return
    yield ""
    yield "Search"
    yield (
        f"  {searched['partitions']} partitions, {searched['files']} files, "
        f"{searched['bytes']} bytes, {searched['records']} records of the key"
    )
    yield f"  {searched['started_at']} to {searched['ended_at']}"
    if searched.get("node_ids"):
        yield f"  on brokers {', '.join(str(each) for each in searched['node_ids'])}"


def _life(replica: Mapping[str, Any]) -> Iterator[str]:
    """What receipts tell since version 4."""
    if not replica.get("incarnation_id"):
        return
    disks = ", ".join(_line(each) for each in replica["directory_ids"])
    yield (
        f"    incarnation {_line(replica['incarnation_id'])}, broker epoch "
        f"{replica['broker_epoch']}, log directories {disks}"
    )
    for each in replica["hosted"]:
        yield (
            f"    hosted partition {each['partition']}, offsets {each['log_start_offset']} to "
            f"{each['log_end_offset']}, partition epoch {each['partition_epoch']}, leader epoch "
            f"{each['leader_epoch']}"
        )
    more = replica["hosted_in_all"] - len(replica["hosted"])
    if more > 0:
        yield f"    and hosted {more} more partitions of the topic"


def _lost_brokers(brokers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if brokers:
        yield ""
        yield "NOT SCANNED, given up by the operator"
    for each in brokers:
        disks = ", ".join(_line(one) for one in each["directory_ids"]) or "none that is known"
        yield (
            f"  broker {each['broker_id']}, log directories {disks}; by {_line(each['by'])}, "
            f"{each['at']}: {_line(each['reason'])}"
        )


def _details(replica: Mapping[str, Any]) -> Iterator[str]:
    """What receipts tell since version 2."""
    if "kinds" not in replica:
        return
    kinds = (f"{each['files']} {each['kind']}, {each['bytes']} bytes" for each in replica["kinds"])
    for line in kinds:
        yield f"    {line}"
    for each in replica["partitions"]:
        yield (
            f"    partition {each['partition']}: {each['files']} files, {each['bytes']} bytes, "
            f"digest {each['digest']}"
        )
    more = replica["partitions_in_all"] - len(replica["partitions"])
    if more > 0:
        yield f"    and {more} more partitions of the topic"
    yield (
        f"    {replica['recreated_records']} records written later, "
        f"{replica['other_topic_records']} in other topics"
    )
    for each in replica["names"]:
        yield f"    {each['hits']} in {each['what']}"


def _exceptions(exceptions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if exceptions:
        yield ""
        yield "Accepted by the operator"
    for each in exceptions:
        trouble = f", not searched whole ({_line(each['trouble'])})" if each["trouble"] else ""
        node = "" if each.get("node_id") is None else f"node {each['node_id']}, "
        yield (
            f"  {node}{_line(each['file'])}: {each['hits']} times the key{trouble}; by "
            f"{_line(each['by'])}, {each['at']}: {_line(each['reason'])}"
        )


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
