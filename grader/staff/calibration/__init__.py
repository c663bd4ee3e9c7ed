"""Calibrates the thresholds of speed on a GPU, for the staff.

The solutions and slow submissions (corpus.py) are timed (readings.py), and thresholds are proposed
(proposals.py). The specs are compared with the timings (lint.py) and edited in place
(spec_edit.py).
"""
