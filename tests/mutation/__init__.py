"""Mutation testing: small bugs planted one at a time, each of which a test must notice."""
