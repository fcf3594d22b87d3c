"""What every test may rely on."""

import signal

# a shell that runs tests in the background has its children ignore Ctrl-C, and they would pass that on
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
