"""The gRPC engine: clients dial in, pull tasks and push updates."""
