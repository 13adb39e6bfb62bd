"""A cluster of Apache Kafka brokers and ours, faults, load, and checks of its logs and znodes."""
