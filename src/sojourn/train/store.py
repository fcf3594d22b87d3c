"""Checkpoints: a tree of tensors and plain values, every tensor written once, nothing pickled.

A checkpoint is a manifest `STEP.json` and the files of tensors that it names. Tensors that never change, such as models
in flight, are written into the file of the first checkpoint that has them and only named by later ones. A manifest is
written last and under its name at once, so that a kill leaves the previous checkpoint whole. Files that no kept
manifest names are deleted.
"""

import json
import os
from collections.abc import Mapping
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from sojourn.errors import UnreadableFile
from sojourn.files import read_json

SCHEMA = 1
KEPT = 2  # manifests: the last one, and the one before


class Store:
    """A folder of checkpoints."""

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self.folder, self._device = folder, device  # where tensors are put when they are read
        self._home: dict[int, tuple[str, str, Tensor]] = {}  # by id of the tensor, which is held so that the id stays

    def steps(self) -> list[int]:
        """Steps of the whole checkpoints."""
        return sorted(int(path.stem) for path in self.folder.glob("*.json") if path.stem.isdecimal())

    def save(self, step: int, tree: Any) -> None:
        """Write a checkpoint; tensors that an earlier one holds are not written again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = self._free_name(step)
        new: dict[str, Tensor] = {}
        used: dict[int, tuple[str, str, Tensor]] = {}
        plain = self._encode(tree, name, new, used)
        if new:
            partial = self.folder / f"{name}.partial"
            partial.write_bytes(save(new))
            _settle(partial, self.folder / name)
        partial = self.folder / f"{step:012d}.json.partial"
        partial.write_text(json.dumps({"sojourn_checkpoint": SCHEMA, "step": step, "tree": plain}), "utf-8")
        _settle(partial, self.folder / f"{step:012d}.json")
        self._home = used
        self._clean()

    def _free_name(self, step: int) -> str:
        """A name for new tensors; where a step is saved again, those of the first time may still be in use."""
        names = (f"{step:012d}-{number}.safetensors" if number else f"{step:012d}.safetensors" for number in count())
        return next(name for name in names if not (self.folder / name).exists())

    def load(self) -> tuple[int, Any]:
        """The last checkpoint."""
        steps = self.steps()
        if not steps:
            raise UnreadableFile(f"there is no checkpoint in {self.folder}; start the run anew")
        path = self.folder / f"{steps[-1]:012d}.json"
        try:
            content = read_json(path, "manifest")
            if content["sojourn_checkpoint"] != SCHEMA:
                raise ValueError(f"schema {content['sojourn_checkpoint']}, this version knows {SCHEMA}")
            files: dict[str, dict[str, Tensor]] = {}
            self._home = {}
            return int(content["step"]), self._decode(content["tree"], files)
        except (
            OSError,
            ArithmeticError,
            AttributeError,
            ImportError,
            LookupError,
            SafetensorError,
            TypeError,
            ValueError,
        ) as error:
            raise UnreadableFile(
                f"checkpoint {path} cannot be read ({error}); remove it to use the one before"
            ) from None

    def _encode(self, value: Any, name: str, new: dict[str, Tensor], used: dict[int, tuple[str, str, Tensor]]) -> Any:
        if isinstance(value, Tensor):
            home = used.get(id(value)) or self._home.get(id(value))
            if home is None:
                home = (name, f"t{len(new)}", value)
                new[home[1]] = value.contiguous()
            used[id(value)] = home
            return {"tensor": [home[0], home[1]]}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            fields = {key: self._encode(getattr(value, key), name, new, used) for key in value._fields}
            return {"named": f"{type(value).__module__}:{type(value).__qualname__}", "fields": fields}
        if isinstance(value, Mapping):
            pairs = [[self._encode(k, name, new, used), self._encode(v, name, new, used)] for k, v in value.items()]
            return {"map": pairs}
        if isinstance(value, tuple | list):
            return {"list": [self._encode(one, name, new, used) for one in value]}
        if isinstance(value, float):
            return {"float": value.hex()}
        if value is None or isinstance(value, bool | int | str):
            return value
        raise TypeError(f"a checkpoint holds tensors, numbers, text, tuples and dicts, got {type(value).__name__}")

    def _decode(self, value: Any, files: dict[str, dict[str, Tensor]]) -> Any:
        if not isinstance(value, dict):
            return value
        if "tensor" in value:
            name, key = value["tensor"]
            if name not in files:
                files[name] = load_file(str(self.folder / name), device=self._device)
            tensor = files[name][key]
            self._home[id(tensor)] = (name, key, tensor)
            return tensor
        if "float" in value:
            return float.fromhex(value["float"])
        if "map" in value:
            return {self._decode(k, files): self._decode(v, files) for k, v in value["map"]}
        if "list" in value:
            return tuple(self._decode(one, files) for one in value["list"])
        module, _, kind = value["named"].partition(":")
        made = getattr(import_module(module), kind)
        if not (isinstance(made, type) and issubclass(made, tuple) and hasattr(made, "_fields")):
            raise ValueError(f"{value['named']} is no named tuple")
        return made(**{key: self._decode(one, files) for key, one in value["fields"].items()})

    def _clean(self) -> None:
        steps = self.steps()
        for old in steps[:-KEPT]:
            (self.folder / f"{old:012d}.json").unlink()
        text = "".join((self.folder / f"{kept:012d}.json").read_text("utf-8") for kept in steps[-KEPT:])
        for path in self.folder.glob("*.safetensors"):
            if path.name not in text:
                path.unlink()


def _settle(partial: Path, path: Path) -> None:
    """Give a file its name once its content is on the disk."""
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(partial, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
