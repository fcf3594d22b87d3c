"""Serve a live run within a ServerApp: the same folder, journal, trace and resume as any live run."""

import logging
from collections.abc import Mapping
from typing import Any

from sojourn.interrupts import noted
from sojourn.learning.run.build import fleet_and_plan
from sojourn.learning.run.config import TrainConfig
from sojourn.live.engine import Engine, Work, plain
from sojourn.live.engines.flower.engine import FlowerEngine
from sojourn.live.engines.flower.records import Carried
from sojourn.live.engines.flower.roster import Names
from sojourn.live.serve import open_run
from sojourn.live.serve import serve as to_its_end
from sojourn.live.settings import ServerFile

TOLD = ("started", "resumed", "joined", "left", "lost", "dropped", "refused", "expelled", "ended", "stopped")
LOGGER = logging.getLogger("flwr")  # what it says goes to `flwr log`


def serve_on(grid: Any, config: TrainConfig, file: ServerFile, resume: bool, more: Mapping[str, Any]) -> bool:
    """Run a live run to its end over a Grid; return whether the end was reached.

    `more` are values for the training functions of clients, beside `lr` and `server-round`.
    """
    fleet = fleet_and_plan(config)[0]
    wishes = {fleet.client_name(client): client for client in range(fleet.clients)}

    def connect(work: Work, epoch: int, known: dict[str, int]) -> Engine:
        return FlowerEngine(grid, plain(work, "flower"), Names(known, range(fleet.clients), wishes), more, _say)

    run = open_run(config, file, connect, resume, _report)
    _say(f"run in {run.folder.resolve()}")
    assert isinstance(run.engine, FlowerEngine)
    run.engine.begin(Carried(run.built.federation.model))
    with noted(twice=True) as stop:
        return to_its_end(run, file, stop)


def _say(text: str) -> None:
    LOGGER.info("sojourn: %s", text)


def _report(what: str, facts: Mapping[str, Any]) -> None:
    if what in TOLD:
        _say(", ".join([what, *(f"{key} {value}" for key, value in facts.items())]))
