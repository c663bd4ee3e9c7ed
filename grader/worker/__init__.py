"""The untrusted side: the program that runs a submission, and the protocol it speaks.

Nothing here is imported by the grader but `protocol`, and nothing here imports the grader: the
files are started by path in a process of their own. What that process knows is one submission
file, the name of its entry, and buffers.
"""
