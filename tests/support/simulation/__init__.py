"""Clients, coordinators and brokers on virtual time, and models to check them against."""
