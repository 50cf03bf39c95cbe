"""The metadata quorum: Raft in KRaft's shape. See README.md. Pure, but for one file."""
