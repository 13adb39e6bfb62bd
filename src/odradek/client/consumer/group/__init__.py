"""Group membership of a consumer: joining, heartbeats, offset commits, leaving."""
