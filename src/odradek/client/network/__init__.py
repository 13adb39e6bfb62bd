"""A client's view of the cluster: metadata, node selection, coordinators, requests to brokers."""
