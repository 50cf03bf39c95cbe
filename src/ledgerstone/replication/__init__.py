"""One hosted partition: who leads it, how far it is replicated, who is fetching from it."""
