"""Formatting a node's log directory: its identity, first features and first voters."""
