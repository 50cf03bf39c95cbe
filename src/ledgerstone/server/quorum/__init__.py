"""The metadata quorum on a real disk and real connections."""
