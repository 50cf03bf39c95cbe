"""How the bytes of a partition divide, counted for partitions that are being looked at."""
