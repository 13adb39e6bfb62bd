"""Changes of the ISR: proposed by leaders, decided by the controller."""
