"""TLS for both sides: settings, keys and certificates, contexts. See README.md."""
