"""The words of receipts that are always the same: names of fields, statements, limits. Grade P.

Kept apart from `receipt` because the journal holds receipts, and a scan of it has to know which
words are ours: a key may be one of them.
"""

from typing import Final

KIND_ERASURE: Final = "erasure"
KIND_NOT_FOUND: Final = "not_found"
KIND_SUPPLEMENT: Final = "supplement"
SYSTEM_CLOCK: Final = "system"
VIRTUAL_CLOCK: Final = "virtual"

STATEMENT: Final = (
    "This is evidence of technical deletion. On the nodes named here, at the times named here, "
    "every file under the log directories was searched for the key, and what was found is counted "
    "here. It is not legal advice."
)
STATEMENT_NOT_FOUND: Final = (
    "At the times named here the records of every partition of the topic were searched, on every "
    "broker named here, and none had the key. Nothing was written and nothing was deleted. It is "
    "not legal advice."
)
# As receipts up to version 3 had it.
STATEMENT_NOT_FOUND_3: Final = (
    "At the times named here the records of every partition of the topic were searched, and none "
    "had the key. Nothing was written and nothing was deleted. It is not legal advice."
)
STATEMENT_SUPPLEMENT: Final = (
    "This adds to the receipt named here what an output has said since. The broker signs that it "
    "was told so, at the time named here; it has not looked at the output. It is not legal advice."
)
RECORDS_ARE: Final = (
    "records of the key up to its tombstone, counted as often as files hold them; those written "
    "later are counted under recreated_records, those of other topics under other_topic_records"
)
MENTIONS_ARE: Final = (
    "places where the key's bytes occur inside records of other keys; such records are not the "
    "erased ones and were left as they are"
)
NAMES_ARE: Final = (
    "places where the key's bytes occur in names that users gave, of topics and groups, or in ids; "
    "they were left as they are"
)
OUTPUTS_ARE: Final = (
    "verifiers that were asked, and groups that had committed offsets where a tombstone lay; "
    "verified: evidence says that the key is not in it; read: the group committed past every "
    "tombstone, and nobody looked at what it wrote; not_verified: neither is known"
)
NOT_COVERED: Final = (
    "copies outside the log directories: backups, snapshots of disks, mirrors, exports",
    "blocks that the operating system or the drive has freed but not overwritten",
    "the memory of running processes and of consumers that read the records before",
)
NUMBERS: Final = (
    "numbers that the broker keeps in files of its own: offsets, positions, sizes, times and ids "
    "of producers are not compared with the key"
)
NOT_SEARCHED: Final = (
    "files that are no logs of the topic's partitions, and bytes that are no keys of records: "
    "they were not searched"
)
VIRTUAL_TIMES: Final = (
    "real time: the broker ran on a virtual clock, and some of the times here were set by hand"
)
RECREATED: Final = "records of the key written after the erasure, listed under recreated"
ELSEWHERE: Final = "records with the same key in other topics, listed under other_topics"
ACCEPTED: Final = "what an operator accepted, listed under exceptions"
LOST: Final = (
    "disks of brokers that an operator has given up, listed under lost_brokers: nobody has "
    "scanned them"
)
FORMER: Final = "disks of brokers that had left the cluster before the search"
NO_VERIFIER: Final = "downstream systems: no verifier gave evidence"
OTHER_SYSTEMS: Final = "downstream systems other than those listed under downstream"

NOT_VERIFIED: Final = "outputs that stand as not_verified under outputs"

# As receipts of version 1 had it.
STATEMENT_1: Final = (
    "This is evidence of technical deletion from the files named here at the times named here. "
    "It is not legal advice."
)

FIELDS_1: Final = (
    "version", "id", "cluster_id", "topic", "topic_id", "key", "reason", "requested_by",
    "requested_at", "deadline", "met_deadline", "issued_at", "stages", "tombstones", "replicas",
    "recreated", "other_topics", "downstream", "not_covered", "statement", "public_key",
    "signature",
)  # fmt: skip
FIELDS_2: Final = (*FIELDS_1, "kind", "clock", "exceptions", "searched")
FIELDS_3: Final = (
    *FIELDS_2, "outputs", "outputs_are", "outputs_in_all", "outputs_not_verified",
)  # fmt: skip
OUTPUT_FIELDS: Final = (
    "kind", "name", "status", "reason", "detail", "partition", "tombstone_offset",
    "committed_offset",
)  # fmt: skip
FIELDS_4: Final = (*FIELDS_3, "lost_brokers")
SUPPLEMENT_FIELDS: Final = (
    "version", "kind", "id", "number", "cluster_id", "topic", "topic_id", "receipt_sha256",
    "clock", "verifier", "group", "covers", "verdict", "words", "issued_at", "statement",
    "public_key", "signature",
)  # fmt: skip
REPLICA_FIELDS_2: Final = (
    "node_id", "scan_started_at", "scan_ended_at", "files", "bytes", "digest", "kinds",
    "partitions", "partitions_in_all", "records", "records_are", "recreated_records",
    "other_topic_records", "mentions", "mentions_are", "names", "names_are", "residue", "accepted",
)  # fmt: skip
REPLICA_FIELDS_4: Final = (
    *REPLICA_FIELDS_2, "incarnation_id", "broker_epoch", "directory_ids", "hosted",
    "hosted_in_all",
)  # fmt: skip
LOST_BROKER_FIELDS: Final = ("broker_id", "directory_ids", "reason", "by", "at")

TIME_NAMES: Final = (
    "requested_at", "deadline", "issued_at", "at", "scan_started_at", "scan_ended_at",
    "started_at", "ended_at", "scheduled", "requested", "searched", "tombstoned", "stamped",
    "removed", "unlinked", "verified", "not_found",
)  # fmt: skip
RECEIPT_NAMES: Final = frozenset({
    *FIELDS_4, *OUTPUT_FIELDS, *SUPPLEMENT_FIELDS, *REPLICA_FIELDS_4, *LOST_BROKER_FIELDS,
    *TIME_NAMES, "hmac_sha256", "partition_epoch", "leader_epoch", "log_start_offset",
    "log_end_offset", "node_ids",
    "partition", "offset", "kind", "what", "hits", "accepted_hits", "file", "trouble", "by",
    "first_offset", "last_offset", "tombstones", "verifier", "output", "verdict", "evidence",
})  # fmt: skip
OWN_TEXTS: Final = frozenset({
    STATEMENT, STATEMENT_NOT_FOUND, STATEMENT_NOT_FOUND_3, STATEMENT_1, RECORDS_ARE,
    MENTIONS_ARE, NAMES_ARE,
    *NOT_COVERED, NUMBERS, NOT_SEARCHED, VIRTUAL_TIMES, RECREATED, ELSEWHERE, ACCEPTED,
    LOST, FORMER, NO_VERIFIER, OTHER_SYSTEMS, NOT_VERIFIED, OUTPUTS_ARE, STATEMENT_SUPPLEMENT,
    KIND_ERASURE, KIND_NOT_FOUND, KIND_SUPPLEMENT, SYSTEM_CLOCK, VIRTUAL_CLOCK,
})  # fmt: skip
