"""Authentication and authorization: SASL mechanisms, TLS, ACLs and tokens, without I/O."""
