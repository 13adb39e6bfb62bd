"""Where the cluster's truth lives: a store with ZooKeeper's semantics, and Kafka's layout in it."""
