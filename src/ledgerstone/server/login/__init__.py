"""Logins by SASL: what a listener asks for, and how far a connection has come. See README.md of
`server`."""
