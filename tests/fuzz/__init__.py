"""Requests of every API and version, right in shape and wrong in everything else, sent to a live broker."""
