"""Group membership and committed offsets as one synchronous machine. The rules are in README.md."""
