"""Papers that are installed for the length of a test, as pip installs them: a folder of metadata on the path.

The distribution has the name of the real one, which it hides where that is installed.
"""

import sys
from types import ModuleType

from sojourn.report.reproduction.paper import Paper

METADATA = "Metadata-Version: 2.1\nName: queuing-dynamics\nVersion: 0\n"


def write_metadata(folder, entries):
    """A distribution with these entry points, in words."""
    home = folder / "queuing_dynamics-0.dist-info"
    home.mkdir(parents=True)
    (home / "METADATA").write_text(METADATA)
    (home / "entry_points.txt").write_text("[sojourn.papers]\n" + "\n".join(entries))


def install(monkeypatch, folder, **papers):
    """Have these papers installed, each a list of experiments, or whatever else its entry point leads to."""
    for name, given in papers.items():
        module = ModuleType(f"pretended_{name}")
        module.PAPER = Paper(name, f"On {name}", tuple(given)) if isinstance(given, list | tuple) else given
        monkeypatch.setitem(sys.modules, module.__name__, module)
    write_metadata(folder, [f"{name} = pretended_{name}:PAPER" for name in papers])
    monkeypatch.syspath_prepend(folder)
