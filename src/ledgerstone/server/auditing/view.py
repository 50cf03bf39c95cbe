"""The audit log as operators see it: metrics, and a note for /readyz. Grade D."""

from collections.abc import Iterator

from ledgerstone.server.auditing.auditor import Auditor
from ledgerstone.server.metrics import MetricSample


def samples(auditor: Auditor) -> Iterator[MetricSample]:
    file, feed = auditor.file, auditor.feed
    for name, kind, text, value in (
        ("lines_total", "counter", "Lines of the audit log, ever.", file.link.seq),
        ("unsealed_lines", "gauge", "Lines since the last seal.", file.unsealed),
        (
            "write_failures_total",
            "counter",
            "Lines that could not be written since the start. Changes were refused.",
            auditor.failures,
        ),
    ):
        yield MetricSample(f"ledgerstone_audit_{name}", kind, text, value)
    if feed is not None:
        text = "Lines that __audit does not have yet."
        yield MetricSample("ledgerstone_audit_topic_lag", "gauge", text, feed.lag)


def notes(auditor: Auditor) -> Iterator[str]:
    """No reason to be red: the file has every line."""
    feed = auditor.feed
    if feed is not None and feed.trouble is not None:
        yield f"__audit lags by {feed.lag} lines: {feed.trouble}"
