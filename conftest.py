"""What can only be imported beside a GPU, or with the extra `kernels`, is not looked through for examples."""

from importlib.util import find_spec

collect_ignore = (
    [] if find_spec("triton") else [f"src/sojourn/learning/execute/stacked/{name}.py" for name in ("kernels", "launch")]
)
