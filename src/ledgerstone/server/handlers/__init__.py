"""One file per API. The head of each says behaviour, versions, and where it differs from Kafka."""
