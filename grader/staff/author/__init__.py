"""`grader author check`: is an exercise of a course whole, and does the grader judge it rightly?

check.py         the checks in order: what is wrong, a line each
definitions.py   the oracle on each size class and dtype, and the tolerance
own_check.py     an exercise's own NAME_check: right results and fakes
fakes.py         wrong results that must be refused
texts.py         what is written: stubs, the handout's section, the corpora's entries
trials.py        what is run: the solution, the stub, wrong and honest submissions
"""
