"""The GPU of this machine: what it is, what it can do, who uses it.

`machine` says what there is, `nvml` and `state` how it is right now, `datasheets` and
`measured_roofs` what it reaches at best. `locks` share it among commands, and `contention` measures
how much of its time others have.
"""
