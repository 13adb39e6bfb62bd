"""Clusters of Apache Kafka brokers and one of ours, on ZooKeeper."""
