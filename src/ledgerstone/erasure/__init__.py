"""Erasure with evidence: a key's way from the request to a signed receipt. See README.md."""
