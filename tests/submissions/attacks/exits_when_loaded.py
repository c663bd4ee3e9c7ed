# It ends its process while the file is loaded. | silu/triton | import_error | sandbox=import_error, boundary=import_error
import os

os._exit(0)


def silu(x, out):
    pass
