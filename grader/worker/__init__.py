"""The untrusted side: the programs that run a submission, and their protocol.

Nothing here imports the grader: the files are started by path in processes of their own. Such a
process has one submission file, the name of its entry, and buffers. The grader imports `protocol`,
and a few readers and tools that run nothing of a submission.
"""
