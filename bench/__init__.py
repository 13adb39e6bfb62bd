"""Side-by-side benchmarks of Odradek and Apache Kafka on one machine."""
