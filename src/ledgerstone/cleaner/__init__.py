"""Compaction: keep the latest record of each key, and remove tombstones when they are due."""
