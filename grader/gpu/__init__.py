"""The GPU of this machine: its properties, its state, its peak rates and its users.

`machine` has properties, `nvml` and `state` the current state, `datasheets` and `measured_roofs`
the peak rates. `locks` share the GPU among commands, and `contention` measures others' load.
"""
