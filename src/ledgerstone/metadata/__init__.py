"""What the cluster is: its brokers, topics and settings, and who may change them. Pure."""
