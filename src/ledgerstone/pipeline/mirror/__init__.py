"""Copies of topics on another cluster: records, deletes, erasures, the places of groups."""
