"""A workload on three real nodes under faults, in the manner of Jepsen's Kafka tests.

Clients append, poll, commit and delete while a schedule drawn from a seed kills, cuts, freezes and
starves nodes. Every call and its outcome is written down; the history is judged at the end.
"""
