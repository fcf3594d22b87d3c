"""The source of the user's own code that a run names: a method that was edited is another one, though its name stays.

A module counts with its file, a package with all of its Python files; what they import from elsewhere does not. What is
installed (in site-packages) does not count either: it has a version. Nothing is imported here.
"""

import hashlib
import inspect
import re
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from sojourn.errors import InvalidInput
from sojourn.own_code import OBJECT, objects_of

_MODULE = re.compile(r"(?<![\w.:])([A-Za-z_][\w.]*):[A-Za-z_]")
_INSTALLED = {"site-packages", "dist-packages"}
_KNOWN = (Path(sysconfig.get_path("stdlib")).resolve(), Path(__file__).resolve().parents[1])  # Python's and sojourn's
_LOADED: dict[Path, str] = {}
"""The sources of modules when they were first asked for, to notice if one is edited after it was loaded."""


def sources(texts: Iterable[str], program: bool = True) -> dict[str, str]:
    """Return the fingerprint of the source of each module and object that the texts name, by name; `program` says
    whether objects that the program itself defines count.

    >>> sources(["digits", "json:loads", "mine:Class", "cifar10(folder=C:/images)"])
    {}
    """
    found: dict[str, str | None] = {}
    for text in texts:
        for name in _MODULE.findall(text):
            if f"{name}:" != OBJECT:
                found[name] = _of_module(name)
        for label, thing in objects_of([text]).items():
            if program or _home(thing) != "__main__":
                found[label] = _of_object(thing)
    return {name: source for name, source in sorted(found.items()) if source is not None}


def check_unchanged(before: Mapping[str, str], texts: Iterable[str]) -> None:
    """Refuse, in a process that is to train, code that has been edited since the work was handed out.

    What the program itself defines travels with the work, as it was.
    """
    for name, now in sources(texts, program=False).items():
        if before.get(name, now) != now:
            raise InvalidInput(
                f"the code of {name.removeprefix(OBJECT)} must stay as it is while runs are trained, but it was edited "
                "after they had been planned; start them again, and what it decides is trained anew"
            )


def _of_module(name: str) -> str | None:
    path = _file(name)
    if path is None or _INSTALLED & set(path.parts) or any(path.is_relative_to(home) for home in _KNOWN):
        return None
    files = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    try:
        states = tuple((file.stat().st_mtime_ns, file.stat().st_size) for file in files)
        now = _read(path.parent, tuple(files), states)
    except OSError:
        return None  # whoever imports it reports what is wrong
    if name not in sys.modules:
        _LOADED[path] = now
    elif _LOADED.setdefault(path, now) != now:
        raise InvalidInput(
            f"module '{name}' must stay as it is while a program uses it, but {path} was edited after it had been "
            "loaded; start the program again"
        )
    return now


@lru_cache(maxsize=64)
def _read(home: Path, files: tuple[Path, ...], states: tuple[tuple[int, int], ...]) -> str:
    """Return the fingerprint of files in this state, with their places in their folder."""
    found = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        found.update(f"{file.relative_to(home).as_posix()} {len(content)}\n".encode() + content)
    return found.hexdigest()


def _file(name: str) -> Path | None:
    """Return the file of a module, found as Python finds it, but without importing it or the packages around it."""
    loaded = getattr(sys.modules.get(name), "__file__", None)
    if loaded is not None:
        return Path(loaded).resolve()
    places, spec = None, None
    for part in name.split("."):  # each by its last name, since a folder without a package file asks for its parent
        spec = PathFinder.find_spec(part, places)
        if spec is None:
            return None
        places = list(spec.submodule_search_locations or [])
    return None if spec is None or spec.origin is None else Path(spec.origin).resolve()


def _of_object(thing: Any) -> str | None:
    """Return the fingerprint of the module that defines an object; of one that the program itself defines, its own."""
    home = _home(thing)
    if home != "__main__":
        return _of_module(home)
    try:
        return hashlib.sha256(inspect.getsource(_named(thing)).encode()).hexdigest()
    except (OSError, TypeError):  # typed in, not written in a file
        return None


def _home(thing: Any) -> str:
    """Return the name of the module that defines an object."""
    return str(getattr(_named(thing), "__module__", None))


def _named(thing: Any) -> Any:
    """Return the class, function or method whose source an object has."""
    thing = thing.func if isinstance(thing, partial) else thing
    return thing if inspect.isclass(thing) or inspect.isroutine(thing) else type(thing)
