"""Cluster decisions: which broker leads what. The machine decides, the runtime carries out."""
