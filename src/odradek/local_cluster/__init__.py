"""A cluster of brokers and a ZooKeeper server on this machine, each in a process of its own."""
