"""Contract suites of the ports: every implementation, fake or real, passes them."""
