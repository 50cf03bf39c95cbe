"""Golden files captured from Apache Kafka, and Kafka's own tools as an oracle.

`make_kafka_golden.py` writes `tests/golden/kafka`; `kafka_tools.py` fetches Kafka and
parses its dump tool, which `tools/kafka_reads.py` uses on directories we wrote.
"""
