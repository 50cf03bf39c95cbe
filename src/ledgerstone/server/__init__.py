"""A broker: machines composed, and the thin shell that performs what they decide."""
