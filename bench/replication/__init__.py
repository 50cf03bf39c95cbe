"""Three nodes of Ledgerstone beside three nodes of Apache Kafka, on the same machine."""
