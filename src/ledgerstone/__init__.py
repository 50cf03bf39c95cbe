"""Ledgerstone: a Kafka-compatible log whose deletes are visible, bounded in time and provable."""

__version__ = "0.1.0"
