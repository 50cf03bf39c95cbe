"""How much a client may use, and how long it has to wait. See README.md. Pure."""
