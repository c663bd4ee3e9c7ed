"""A class graded: what is to be done, where it is done, and how far it is."""
