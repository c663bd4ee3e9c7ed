"""One submission graded: its tasks checked many at a time, and timed one at a time.

grade.grade(folder, exercises)             evidence on every task
session.Session(folder, exercises)         one submission with all that it needs open
check.check(session, task)                 the shared phase: correctness and use of memory
measure.measure(session, task, evidence)   the exclusive phase: speed
"""
