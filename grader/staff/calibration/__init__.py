"""Thresholds of speed, calibrated on a GPU by the staff.

Of timings (readings.py) of the solutions and of slow submissions (corpus.py) thresholds follow
(proposals.py). The specs are held against them (lint.py), and edited in place (spec_edit.py).
"""
