"""The benchmarks, one module each, named after what they measure."""
