"""Grading a class: what is left to do, where it runs, and how far it is."""
