"""Who asks, and what they may do. See README.md. Pure."""
