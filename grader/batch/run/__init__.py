"""Grading a class: the jobs that are left, the machines that run them, and the progress."""
