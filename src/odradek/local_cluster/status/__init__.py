"""Status of a local cluster: read from its brokers, shown as text."""
