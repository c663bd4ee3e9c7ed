"""Many submissions: a folder of folders graded one after the other, into a CSV file."""
