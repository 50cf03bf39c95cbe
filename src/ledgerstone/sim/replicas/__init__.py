"""Whole brokers in a cluster, with data, groups and transactions, under faults."""
