"""How the bytes of a partition divide, counted for what somebody looks at."""
