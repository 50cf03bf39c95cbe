"""The life of a broker in a cluster: registration, heartbeats, controlled shutdown."""
