"""The active controller as an agent: proposals in flight, timers, snapshots."""
