"""For tests of programs that use Kafka: a broker as a pytest fixture, and a conformance kit."""
