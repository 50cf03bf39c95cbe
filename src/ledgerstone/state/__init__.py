"""The current key set of a topic: folded at kernel speed, listed, kept in a file, resumed."""
