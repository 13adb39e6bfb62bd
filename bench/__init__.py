"""Side-by-side measurements of Odradek and Apache Kafka on one machine, in one run."""
