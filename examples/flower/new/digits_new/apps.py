"""Both apps: the fleet is in fleet.toml, and what is trained in pyproject.toml, [tool.flwr.app.config.sojourn]."""

from pathlib import Path

from sojourn.flower import client_app, server_app

FLEET = Path(__file__).with_name("fleet.toml")

server = server_app(FLEET)
client = client_app(fleet=FLEET)
