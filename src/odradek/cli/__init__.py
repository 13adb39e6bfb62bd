"""The commands, which access a cluster only through the clients."""
