"""Jobs on Spark that read whole topics: tables that follow them, snapshots, verification.

Importing this package imports neither pyspark nor Arrow nor a database driver.
"""
