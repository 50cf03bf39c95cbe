"""Clients of simulated brokers: each knows what it was promised."""
