"""The transaction coordinators of this broker."""
