"""Words of the domain: ids, error codes, levels. Imports nothing of ours."""
