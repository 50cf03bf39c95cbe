"""Kafka's messages on one side, the quorum's own on the other. Pure. One module for each pair."""
