"""Tombstones as operators see them: held, guarded, strayed."""
