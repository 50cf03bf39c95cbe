"""Every setting, with Kafka's name, declared once."""
