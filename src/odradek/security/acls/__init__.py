"""ACLs: their model, their format in the store, and decisions."""
