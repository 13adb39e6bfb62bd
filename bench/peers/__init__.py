"""The brokers that are measured, behind one interface."""
