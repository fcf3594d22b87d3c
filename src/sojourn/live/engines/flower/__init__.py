"""The engine that carries tasks and updates over Flower's Grid."""
