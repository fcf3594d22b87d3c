"""The closed network, exactly: queues, throughput, staleness, their gradients and their limits. No dice here."""
