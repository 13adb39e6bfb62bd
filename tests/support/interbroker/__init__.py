"""Recorder of the traffic between Apache Kafka brokers, and of their writes to ZooKeeper."""
