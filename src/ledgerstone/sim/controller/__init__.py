"""Simulated clusters of controllers and brokers: the real quorum, the real controller."""
