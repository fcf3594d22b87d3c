"""What all tests share, those in docstrings and of the papers too."""

import os
from importlib.util import find_spec

from hypothesis import settings

settings.load_profile("ci")  # the same examples each time and no deadline, on every machine
os.environ.pop("COLUMNS", None)  # processes that share the tests are given a width; lines are wrapped only where asked

# what can only be imported beside a GPU, or with the extra `kernels`, is not searched for examples
collect_ignore = (
    [] if find_spec("triton") else [f"src/sojourn/learning/execute/stacked/{name}.py" for name in ("kernels", "launch")]
)
