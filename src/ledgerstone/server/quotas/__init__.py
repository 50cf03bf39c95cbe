"""Quotas at work: requests are counted, connections muted. See README.md of the server."""
