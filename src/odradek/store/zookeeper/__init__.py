"""The store on a ZooKeeper ensemble, through kazoo."""
