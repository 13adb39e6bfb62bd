"""Transactions: who writes under which epoch, and how what they wrote ends."""
