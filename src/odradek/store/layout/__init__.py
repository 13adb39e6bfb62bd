"""Names, paths and contents of the nodes of a cluster, as Kafka writes them."""
