"""`grader inspect`: the code that the compilers make of a kernel, beside the lines it comes from.

    compiling.py, device_code.py   Triton's and CUDA C++'s compilers, in processes of the sandbox
    kernels.py                     what a variant launches for a case, compiled
    statements.py, ptx.py, sass.py a stage's text, with the line of each part
    findings.py and what it calls  what the code shows, in sentences
    listing.py                     code by lines of the source
    terminal.py, page.py           the views

Texts and cubins come from processes that a submission can influence: they are untrusted bytes.
"""
