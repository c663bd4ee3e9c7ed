"""Thresholds of speed, calibrated on a GPU: the staff's. Students' releases have none of it.

corpus      submissions known to be wrong or slow, and honest ones that look unusual
readings    what was timed: the solution and the slow submissions of each variant, and the ladders
proposals   thresholds that follow from it
lint        what the specs say beside what was measured
spec_edit   numbers of a spec, changed in place
table       proposals for people
timings     what readings mean for the specs; the clock (cli/calibrate.py: the command)
"""
