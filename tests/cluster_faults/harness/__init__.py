"""The cluster, its network, faults, load and checks."""
