"""`sojourn replay`: train again along the trace of a live run, and compare the models."""

from pathlib import Path
from typing import Annotated

import typer

from sojourn.cli.arguments import AsJson
from sojourn.cli.show import say


def replay(
    run: Annotated[Path, typer.Argument(help="Folder of a finished live run, or its trace.parquet.")],
    out: Annotated[Path, typer.Option(help="Folder of the new run.")] = Path("replayed"),
    trust: Annotated[
        bool, typer.Option("--trust", help="Allow the run's own code, `package.module:function`, to be executed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train again along the recorded trace of a live run.

    The same tasks are computed from the same models in the same order, so the model is the same to the bit where
    processor and libraries are. Clients must have held their parts of the run's own data, as those of
    `sojourn live local` do: a client's own data is known to nobody else.

    Examples:
    - `sojourn replay live/ --out replayed/`

    """
    from sojourn.cli.show import print_json
    from sojourn.live.replayed import replay_run

    found = replay_run(run, out, trust)
    if as_json:
        facts = {"updates": found.updates, "same": found.same, "difference": found.difference, "why": found.why}
        print_json({"command": "replay", "folder": str(found.folder), **facts})
        return
    end = "the model is the recorded one, bit for bit"
    if not found.same:
        end = f"the model differs from the recorded one by {found.difference:.3g} at most"
        end += f"; {found.why}" if found.why else ""
    say(f"{found.updates:,} updates replayed in {found.folder}: {end}")
