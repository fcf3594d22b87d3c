"""Checkpoints: the model as a file of its own, every so many updates."""

import re
from pathlib import Path

from sojourn.callbacks.callback import Callback, Model, RunFacts
from sojourn.errors import InvalidInput
from sojourn.files import tidy, write_bytes, writing

FOLDER = "models"
_NAME = re.compile(r"model-(\d{12,})\.safetensors")


class Checkpoints(Callback):
    """Keeps the model of every `every`-th update as models/model-UPDATE.safetensors, the last `most` of them.

    The files have the form of model.safetensors. They are for use elsewhere; what a run needs to be resumed is in its
    own checkpoints.
    """

    name = "checkpoints"

    def __init__(self, every: int, most: int = 5) -> None:
        for key, value in (("every", every), ("most", most)):
            if value < 1:
                raise InvalidInput(f"callback checkpoints: {key} must be at least 1, got {value}")
        self.every, self.most = every, most
        self._folder = Path()

    def begin(self, run: RunFacts) -> None:
        """Remove the models of updates that a crash has undone."""
        self._folder = run.folder / FOLDER
        with writing(self._folder, "to"):
            self._folder.mkdir(exist_ok=True)
        tidy(self._folder)
        for received, path in self._found():
            if received > run.received:
                path.unlink()

    def updated(self, received: int, model: Model) -> None:
        """Write the model, and remove those that are too many."""
        from safetensors.torch import save

        write_bytes(self._folder / f"model-{received:012d}.safetensors", save(model()), "model")
        for _, path in self._found()[: -self.most]:
            path.unlink()

    def _found(self) -> list[tuple[int, Path]]:
        named = ((_NAME.fullmatch(path.name), path) for path in self._folder.iterdir())
        return sorted((int(match[1]), path) for match, path in named if match)
