"""The command line's files, one per noun. They reach a cluster only through the client."""
