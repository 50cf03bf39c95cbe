"""A metadata quorum under faults. See docs/simulation.md; `make sim PROFILE=quorum` runs it."""
