"""What operators see of transactions: metrics. Grade D, over the agent."""

from collections.abc import Iterator

from ledgerstone.coordinator.transactions.metadata import TxnState
from ledgerstone.server.metrics import MetricSample
from ledgerstone.server.transactions.agent import Transactions


def samples(transactions: Transactions, now_ms: int) -> Iterator[MetricSample]:
    counts = transactions.shards.count_by_state()
    for state, count in counts.items():
        yield MetricSample(
            "ledgerstone_transactional_ids", "gauge", "Transactional ids, by state.", count,
            (("state", state.shown),),
        )  # fmt: skip
    oldest_ms = transactions.shards.oldest_start_ms()
    for name, value, text in (
        ("ledgerstone_transactions_open", counts[TxnState.ONGOING], "Transactions not decided."),
        (
            "ledgerstone_transactions_open_oldest_seconds",
            0 if oldest_ms is None else max(0, now_ms - oldest_ms) / 1000,
            "Age of the oldest transaction that is not decided.",
        ),
        (
            "kafka_coordinator_transaction_transactionmarkerchannelmanager"
            "_unknowndestinationqueuesize",
            len(transactions.settling.retries),
            "Decided transactions whose markers wait for a leader.",
        ),
        (
            "ledgerstone_transaction_memory_bytes",
            transactions.memory.held_bytes,
            "Memory of transactional ids, of what ledgerstone.transactions.max.bytes allows.",
        ),
    ):
        yield MetricSample(name, "gauge", text, value)
    yield MetricSample(
        "ledgerstone_transactions_timed_out_total", "counter",
        "Transactions aborted because they took longer than their time-out.",
        transactions.timed_out_count,
    )  # fmt: skip
