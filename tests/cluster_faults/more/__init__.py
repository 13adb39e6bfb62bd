"""All faults of links, requests, power, disks, copies, clocks and coordinators; CI plays a selection."""
