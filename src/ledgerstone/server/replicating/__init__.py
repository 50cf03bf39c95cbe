"""Pulls what other brokers lead. Grade D."""
