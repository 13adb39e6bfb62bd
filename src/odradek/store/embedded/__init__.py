"""The store on SQLite: ZooKeeper's semantics in one process, for one broker and for tests."""
