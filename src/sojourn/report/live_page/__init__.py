"""The live page: a run as it is now, fed by server-sent events, on 127.0.0.1 alone."""
