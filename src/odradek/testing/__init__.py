"""What tests run on: files that crash, time that jumps, a network in memory; and the suites of the ports."""
