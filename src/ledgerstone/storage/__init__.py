"""One partition's log on disk, in Kafka's file formats. The rules are in README.md."""
