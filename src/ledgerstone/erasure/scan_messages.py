"""Plans and reports as the content of messages. Grade P. How they travel is in `workers`.

A plan holds secrets, so it goes through the pipe and nowhere else.
"""

from typing import Final

from ledgerstone.dataclasses import asdict
from ledgerstone.erasure.erasure import (
    FileHits,
    FileTrouble,
    KindCount,
    NameHits,
    PartitionScan,
    RecordSpan,
)
from ledgerstone.erasure.key_print import KeyPrint
from ledgerstone.erasure.scan_plan import (
    AsideRecords,
    FileDigest,
    FoundAt,
    KeyPrints,
    LiveSegment,
    Place,
    PrintFindings,
    ResiduePlan,
    ScannedPartition,
    ScanPlan,
    ScanReport,
    SearchPlan,
    SearchReport,
    SpanOfPrint,
    UnreadableBytes,
)
from ledgerstone.types import TopicPartition
from ledgerstone.workers.frames import Message

# Lists of names in a plan for a scan.
_NAMES_OF_DIRS: Final = ("log_dirs", "topics", "replicas")


def plan_message(plan: ScanPlan) -> Message:
    kind = "search" if isinstance(plan, SearchPlan) else "residue"
    keys = {
        "prints": [each.to_json() for each in plan.keys.prints],
        "sip_seed": plan.keys.sip_seed.hex(),
        "rolling_base": plan.keys.rolling_base,
    }
    content: Message = {
        "keys": keys,
        "decompression_limit_bytes": plan.decompression_limit_bytes,
        "bytes_per_second": plan.bytes_per_second,
    }
    if isinstance(plan, SearchPlan):
        content["partitions"] = [asdict(each) for each in plan.partitions]
        content["max_places"] = plan.max_places
    else:
        for name in _NAMES_OF_DIRS:
            content[name] = getattr(plan, name)
    return {"kind": kind, "plan": content}


def plan_of(message: Message) -> ScanPlan:
    content = dict(message["plan"])
    keys = content["keys"]
    content["keys"] = KeyPrints(
        prints=tuple(KeyPrint.from_json(each) for each in keys["prints"]),
        sip_seed=bytes.fromhex(keys["sip_seed"]),
        rolling_base=keys["rolling_base"],
    )
    if message["kind"] == "residue":
        for name in _NAMES_OF_DIRS:
            content[name] = tuple(content[name])
        return ResiduePlan(**content)
    content["partitions"] = tuple(_partition_of(each) for each in content["partitions"])
    return SearchPlan(**content)


def _partition_of(content: Message) -> ScannedPartition:
    return ScannedPartition(
        topic_partition=TopicPartition(*content["topic_partition"]),
        directory=content["directory"],
        segments=tuple(LiveSegment(*each) for each in content["segments"]),
    )


def report_message(report: SearchReport | ScanReport) -> Message:
    kind = "searched" if isinstance(report, SearchReport) else "scanned"
    return {"kind": kind, "report": asdict(report)}


def report_of(message: Message) -> SearchReport | ScanReport:
    content = dict(message["report"])
    content["damaged"] = tuple(UnreadableBytes(*each) for each in content["damaged"])
    content["vanished"] = tuple(content["vanished"])
    if message["kind"] == "searched":
        content["spans"] = tuple(
            SpanOfPrint(index, RecordSpan(*span)) for index, span in content["spans"]
        )
        content["places"] = tuple(Place(*each) for each in content["places"])
        return SearchReport(**content)
    content["prints"] = tuple(_findings_of(each) for each in content["prints"])
    content["files"] = tuple(FileDigest(*each) for each in content["files"])
    for name in ("grown", "restless"):
        content[name] = tuple(content[name])
    content["unreadable"] = tuple(FileTrouble(*each) for each in content["unreadable"])
    content["kinds"] = tuple(KindCount(*each) for each in content["kinds"])
    content["partitions"] = {
        topic: tuple(PartitionScan(*each) for each in found)
        for topic, found in content["partitions"].items()
    }
    return ScanReport(**content)


def _findings_of(content: Message) -> PrintFindings:
    found = dict(content)
    found["spans"] = tuple(RecordSpan(*each) for each in content["spans"])
    found["names"] = tuple(NameHits(*each) for each in content["names"])
    found["residue_files"] = tuple(FileHits(*each) for each in content["residue_files"])
    found["aside"] = tuple(
        AsideRecords(RecordSpan(*span), *file) for span, *file in content["aside"]
    )
    for name in ("record_places", "mention_places", "name_places", "residue_places"):
        found[name] = tuple(FoundAt(*each) for each in content[name])
    return PrintFindings(**found)
