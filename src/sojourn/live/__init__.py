"""A real federation: a server that keeps tasks in flight, clients that dial in, and a run that survives crashes."""
