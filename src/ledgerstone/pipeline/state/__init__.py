"""The state of a topic beside the log: snapshots, restore, verification, reconciliation."""
