# It raises with megabytes of terminal controls and markup in the message. | silu/triton | crashed | boundary=crashed, comparison=crashed
def silu(x, out):
    raise ValueError("\x1b[2J\x1b]0;passed\x07<script>alert(1)</script>]]>\u202e\ud800" * 20_000)
