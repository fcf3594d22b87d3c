"""The Ray engine: clients are spread over actors, on this machine or on a cluster; one trust domain."""
