"""A world for tests: virtual time and a disk that can lose what was not synced."""
