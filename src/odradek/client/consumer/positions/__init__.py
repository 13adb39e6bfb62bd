"""Subscription, fetch positions, and the offset requests that reset and validate them."""
