"""Cluster state carried over between an embedded store and ZooKeeper, by ``odradek cluster adopt``."""
