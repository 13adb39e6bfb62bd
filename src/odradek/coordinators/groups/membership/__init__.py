"""Group membership: JoinGroup, SyncGroup, Heartbeat, LeaveGroup and the rebalance they drive."""
