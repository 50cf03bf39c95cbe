"""Apache Kafka and Ledgerstone on one machine, one at a time, with the same client.

python -m bench.peers [--quick] [--only SECTIONS] [--rounds N] [--publish]

How to read the figures, and the last published run, are in docs/benchmarks.md. README.md beside
this file says what is held equal and what each section does.
"""
