"""The HTTP port: health, metrics, the admin API."""
