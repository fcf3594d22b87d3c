"""The ServerApp."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

import sojourn.flower
from digits_app.task import Net, load_test

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    fleet = sojourn.Fleet.of(hospitals=(2, 0.2))
    lr = context.run_config["lr"]
    sojourn.flower.serve(grid, context, fleet, model=Net, data=load_test(), step_size=lr)
