"""Checkpoints: trees of tensors and plain values; every tensor is written once, and nothing is pickled.

A checkpoint is a manifest `STEP.json` and the files of tensors that it names. Tensors that never change, such as models
in flight, are written into the file of the first checkpoint that has them, and later ones only name them. A manifest is
written last and as a whole, so that a killed process leaves the previous checkpoint intact. Files that no kept manifest
names are deleted. A manifest holds the checksums of its files and its own, so that a checkpoint that was damaged on the
disk is detected.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from sojourn.errors import UnreadableFile
from sojourn.files import PARTIAL, read_json, write_bytes, write_text, writing
from sojourn.learning.storable import name_of, restored

SCHEMA = 1
KEPT = 2  # manifests that are kept: the last one, and the one before
_MANIFEST = re.compile(r"[0-9]{12,15}\.json")
_TENSORS = re.compile(r"[0-9]{12,15}(-[0-9]{1,9})?\.safetensors")  # a name in this folder


class Store:
    """A folder of checkpoints."""

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self.folder, self._device = folder, device  # the device for tensors that are read
        self._home: dict[
            int, tuple[str, str, Tensor]
        ] = {}  # by id of the tensor, which is kept alive so that the id stays unique
        self._sums: dict[str, str] = {}  # checksums of files of tensors
        self.refused: dict[int, str] = {}
        """Checkpoints after the one that was loaded, by step, and what is wrong with them; the next
        save removes them.
        """

    def steps(self) -> list[int]:
        """Return the steps of the checkpoints."""
        return sorted(int(path.stem) for path in self.folder.glob("*.json") if _MANIFEST.fullmatch(path.name))

    def check(self, tree: Any) -> None:
        """Raise an error for a value that a checkpoint cannot hold, before one is written."""
        self._encode(tree, "", {}, {})

    def save(self, step: int, tree: Any) -> None:
        """Write a checkpoint; tensors that an earlier one holds are not written again."""
        with writing(self.folder, "to"):
            self.folder.mkdir(parents=True, exist_ok=True)
        name = self._free_name(step)
        new: dict[str, Tensor] = {}
        used: dict[int, tuple[str, str, Tensor]] = {}
        plain = self._encode(tree, name, new, used)
        if new:
            content = save(new)
            write_bytes(self.folder / name, content, "checkpoint")
            self._sums[name] = hashlib.sha256(content).hexdigest()
        names = sorted({home[0] for home in used.values()})
        self._sums = {
            name: self._sums[name] for name in names if name in self._sums
        }  # older files may have no checksums
        manifest = {"sojourn_checkpoint": SCHEMA, "step": step, "tree": plain, "sums": self._sums}
        write_text(self._manifest(step), json.dumps({**manifest, "sum": _sum(manifest)}), "checkpoint")
        self._home = used
        self._clean(step)

    def _manifest(self, step: int) -> Path:
        return self.folder / f"{step:012d}.json"

    def _free_name(self, step: int) -> str:
        """Return a file name for new tensors; if a step is saved again, the first file may still be in use."""
        names = (f"{step:012d}-{number}.safetensors" if number else f"{step:012d}.safetensors" for number in count())
        return next(name for name in names if not (self.folder / name).exists())

    def load(self) -> tuple[int, Any]:
        """Return the last intact checkpoint; `refused` says what is wrong with later ones."""
        self.refused = {}
        for step in reversed(self.steps()):
            try:
                return step, self._read(step)
            except (
                OSError,
                ArithmeticError,
                ValueError,
                LookupError,
                TypeError,
                AttributeError,
                SafetensorError,
            ) as error:
                self.refused[step] = f"checkpoint {self._manifest(step)} cannot be used ({error})"
        if not self.refused:
            raise UnreadableFile(f"there is no checkpoint in {self.folder}; start the run again")
        last = next(iter(self.refused.values()))
        raise UnreadableFile(f"{last}, nor can an earlier one; remove {self.folder} to start the run again")

    def _read(self, step: int) -> Any:
        content = read_json(self._manifest(step), "manifest")
        own = content.pop("sum", None)
        if own is not None and own != _sum(content):
            raise ValueError("it has changed since it was written")
        if content["sojourn_checkpoint"] != SCHEMA:
            raise ValueError(f"schema {content['sojourn_checkpoint']}, this version reads {SCHEMA}")
        self._home, self._sums = {}, dict(content.get("sums", {}))
        return self._decode(content["tree"], {})

    def _tensors(self, name: str) -> dict[str, Tensor]:
        """Return the tensors of a file that has not changed since it was written."""
        if not _TENSORS.fullmatch(name):
            raise ValueError(f"it names the file {name!r}, which does not belong to a checkpoint")
        path = self.folder / name
        if name in self._sums:
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != self._sums[name]:
                    raise ValueError(f"{name} has changed since it was written")
        return load_file(str(path), device=self._device)

    def forget(self) -> None:
        """Delete all checkpoints, which are most of a run's folder for large models with many tasks in flight."""
        rmtree(self.folder, ignore_errors=True)
        self._home, self._sums, self.refused = {}, {}, {}

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
            return {"named": name_of(value), "fields": fields}
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
                files[name] = self._tensors(name)
            tensor = files[name][key]
            self._home[id(tensor)] = (name, key, tensor)
            return tensor
        if "float" in value:
            return float.fromhex(value["float"])
        if "map" in value:
            return {self._decode(k, files): self._decode(v, files) for k, v in value["map"]}
        if "list" in value:
            return tuple(self._decode(one, files) for one in value["list"])
        return restored(value["named"], {key: self._decode(one, files) for key, one in value["fields"].items()})

    def _clean(self, last: int) -> None:
        """Keep what may be needed: two intact manifests, and the files that they name."""
        steps = self.steps()
        kept = [self._manifest(step) for step in steps if step == last or step not in self.refused][-KEPT:]
        for path in {self._manifest(step) for step in steps}.difference(kept):
            path.unlink()
        text = b"".join(path.read_bytes() for path in kept)
        for path in (*self.folder.glob("*.safetensors"), *self.folder.glob(f"*{PARTIAL}")):
            if path.name.encode() not in text:
                path.unlink()
        self.refused = {}


def _sum(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
