"""The current state of a topic by key: folded by kernels, listed, saved to a file, resumed."""
