"""Faults of links, requests, disks, copies, clocks and coordinators; not part of CI yet."""
