"""What Kafka Connect calls sources: tables and files into compacted topics, deletes included.

Importing this package imports no database driver.
"""
