"""Kafka's wire protocol: schemas as data, codecs made from them, framing, connections. Pure.

On the wire a record batch is bytes; this package never looks inside. Rules are in README.md.
"""
