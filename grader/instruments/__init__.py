"""Tools of the student's own: timings as a table and as plots."""
