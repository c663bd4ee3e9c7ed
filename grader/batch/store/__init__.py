"""The database of a class: hand-ins, results, evidence and decisions."""
