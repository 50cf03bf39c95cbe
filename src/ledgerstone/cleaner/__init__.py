"""Compaction: keep the latest record of each key, and let tombstones die when their time comes."""
