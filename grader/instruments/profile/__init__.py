"""`grader profile`: where the time of a program on a GPU goes, by torch.profiler, ncu and nsys."""
