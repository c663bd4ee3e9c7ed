"""`grader visualize`: one page with pictures of a kernel's accesses to memory.

    tracing.py              a variant's run on a small case, each access recorded
    page.py, page.html      the page: the runs as data, and
    page.css, page.js       its looks; the pictures and the steps through them

Traces and kernels' names come from processes that a submission can influence: they are untrusted.
"""
