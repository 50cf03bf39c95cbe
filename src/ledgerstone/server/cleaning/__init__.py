"""The owner's side of compaction: chooses, starts passes, swaps what workers wrote."""
