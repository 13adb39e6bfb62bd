"""Who is on a connection, and what they may do: mechanisms, TLS, ACLs and tokens, without I/O."""
