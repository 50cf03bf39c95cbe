"""Record batches, magic 2: read, build, validate, walk. Pure. The byte table is in README.md."""
