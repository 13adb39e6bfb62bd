"""Decisions of the controller: generators of actions over the controller context. Pure."""
