"""What must hold when things break: torn files, flipped bits, kills, full disks, failing disks.

Each module plays one kind of fault and gives a ``FaultReport``. ``test_faults_short.py`` plays the short
forms in CI; ``python -m tests.faults.run`` plays the long ones.
"""
