"""A metadata quorum under faults. See docs/simulation.md; `make sim-quorum` runs it."""
