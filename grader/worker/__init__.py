"""The untrusted side: the programs that run a submission, and their protocol.

The grader imports nothing here but `protocol`, and nothing here imports the grader: the files are
started by path in processes of their own. Such a process has one submission file, the name of its
entry, and buffers.
"""
