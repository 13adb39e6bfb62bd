"""TLS: what the settings mean, names in certificates, and the encryption of a stream without I/O."""
