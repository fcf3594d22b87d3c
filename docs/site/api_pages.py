"""The reference of the Python API: which names it has, in which order. What they say is in their docstrings."""

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import sojourn

GROUPS = {
    "Fleets": ["Fleet", "Law", "Availability"],
    "Theory": ["analyze", "Analysis", "regime"],
    "Plans": ["make_plan", "Plan", "goal", "Constants"],
    "Simulation": ["simulate", "simulate_to_file", "measure", "Summary", "transient", "Scenario", "Dispatcher"],
    "Traces and what they tell": ["Trace", "scan", "fit", "Fit", "observe", "Observation", "animate"],
    "Training": ["train", "Run", "Dataset", "tune", "TunedPlan", "calibrate", "Calibration"],
    "Live runs": ["serve", "dashboard"],
    "Experiments": ["compare", "Comparison", "sweep", "Sweep"],
    "Errors": ["SojournError", "InvalidInput", "UnreadableFile", "UnwritableFile"],
}
"""The public names of `sojourn` by what they are for; one that is missing here is shown at the end."""

ROOMS = ("algorithms", "callbacks", "models", "testing", "wrappers")
"""Public modules with a page of their own, which shows their `__all__`."""

EXTENDING = {
    "Laws": ["sojourn.laws.kind.LawKind", "sojourn.laws.kind.register"],
    "Dispatchers": ["sojourn.dispatching.DispatcherKind", "sojourn.dispatching.register"],
    "Objectives": ["sojourn.planning.bound.objective.Scored", "sojourn.planning.bound.objective.Prediction"],
}
"""What a law, a dispatcher and a planner objective of your own are made of (docs/extending.md)."""

GLOSSARY = Path(__file__).parents[1] / "glossary.md"


def public_names() -> dict[str, list[str]]:
    """Where each public name is shown: its page, and the dotted names on it."""
    pages = {"api/sojourn.md": [f"sojourn.{name}" for name in sojourn.__all__ if not _is_room(name)]}
    for room in ROOMS:
        module = import_module(f"sojourn.{room}")
        pages[f"api/{room}.md"] = [f"sojourn.{room}.{name}" for name in module.__all__]
    pages["api/extending.md"] = [name for names in EXTENDING.values() for name in names]
    return pages


def _is_room(name: str) -> bool:
    return name == "__version__" or isinstance(getattr(sojourn, name), ModuleType)


def pages() -> dict[str, str]:
    """The pages of the reference, by name; mkdocstrings fills in what `:::` names."""
    known = public_names()
    left = [name.removeprefix("sojourn.") for name in known["api/sojourn.md"]]
    grouped = {title: [name for name in names if name in left] for title, names in GROUPS.items()}
    named = {name for names in grouped.values() for name in names}
    grouped["More"] = [name for name in left if name not in named]
    found = {"api/sojourn.md": _first(grouped)}
    for room in ROOMS:
        words = f"# sojourn.{room}\n{_entry(f'sojourn.{room}', 2, 'members: false', 'show_root_heading: false')}"
        found[f"api/{room}.md"] = words + "".join(_entry(name, 2) for name in known[f"api/{room}.md"])
    text = "# What you extend\n\nHow it is done, with examples: [extending](../extending.md).\n"
    for title, names in EXTENDING.items():
        text += f"\n## {title}\n" + "".join(_entry(name, 3) for name in names)
    found["api/extending.md"] = text
    return found


def _first(grouped: dict[str, list[str]]) -> str:
    text = "# sojourn\n\n`import sojourn as sj`; names are loaded when they are first used.\n"
    for title, names in grouped.items():
        if names:
            text += f"\n## {title}\n{_words(names)}" + "".join(_entry(f"sojourn.{name}", 3) for name in names)
    return text


def _words(names: list[str]) -> str:
    """Links to the glossary, for names that are words of it."""
    known = set(re.findall(r"^### ([a-z]+)$", GLOSSARY.read_text("utf-8"), re.MULTILINE))
    found = [name.lower() for name in names if name.lower() in known]
    links = ", ".join(f"[{word}](../glossary.md#{word})" for word in dict.fromkeys(found))
    return f"\nIn the glossary: {links}.\n" if links else ""


def _entry(name: str, level: int, *options: str) -> str:
    lines = "".join(f"      {option}\n" for option in (f"heading_level: {level}", *options))
    return f"\n::: {name}\n    options:\n{lines}"
