"""Our clients on a secured Apache Kafka, and Kafka's command-line tools on our secured broker."""
