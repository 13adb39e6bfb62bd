"""Fault injection: damaged files, kills, failing disks; groups, transactions, clients and Spark under kills.

Each module injects one kind of fault and returns a ``FaultReport``. ``test_*_faults.py`` run short forms in
CI; ``python -m tests.faults.run`` runs the long ones.
"""
