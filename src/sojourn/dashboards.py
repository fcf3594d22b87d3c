"""Dashboards: live pages of runs, of this process or by their folders, and planner pages of fleets.

Here the rooms `live` and `report` meet.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sojourn.errors import InvalidInput

if TYPE_CHECKING:
    from sojourn.fleet import Fleet
    from sojourn.live.run import LiveRun
    from sojourn.report.live_page.training_controls import TrainingControls
    from sojourn.report.web.serving import Serving
    from sojourn.report.web.tokens import Token
    from sojourn.watched import Watched

PORT = 7734


class Dashboard:
    """A live page or a planner page that is served until `stop`, or during a `with` block.

    `address` is where the page is, and `token_file` holds the token that the page asks for: readable by its owner
    alone, and never part of the address.
    """

    def __init__(self, watched: "Watched | Planner", port: int = 0, folder: Path | None = None) -> None:
        """`folder` is where the token lies meanwhile; None = in a private folder."""
        from sojourn.report.web.tokens import passing_token

        self._held = passing_token(folder)
        token = self._held.__enter__()
        try:
            self._serving = _served(watched, token, port).start()
        except BaseException:
            self._held.__exit__(None, None, None)
            raise

    @property
    def address(self) -> str:
        """Where the page is."""
        return self._serving.address

    @property
    def token_file(self) -> Path:
        """The file with the token."""
        return self._serving.token.file

    def wait(self, done: Callable[[], bool] = lambda: False) -> None:
        """Serve until Ctrl-C, or until `done` says so."""
        self._serving.wait(done)

    def stop(self) -> None:
        """Stop serving, and remove the token."""
        self._serving.stop()
        self._held.__exit__(None, None, None)

    def __enter__(self) -> "Dashboard":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Dashboard at {self.address}, token in {self.token_file}>"


def dashboard(folder: str | Path | None = None, port: int = 0, *, fleet: Any = None) -> Dashboard:
    """Show the run in a folder, or a planner for a fleet, as a page on 127.0.0.1, and return the Dashboard.

    - `folder`: that of a live run or of simulated training, which may still be going; it is only read, and no lock is
      taken
    - `port`: where the page is served (0 = any that is free)
    - `fleet`: instead of a run, play with the policies of a Fleet, of a fleet file or of a log of durations; without
      either, of an example

    Use it in a `with` block, or call `stop` at the end:

        with sojourn.dashboard("live/") as page:
            print(page.address, page.token_file)
            page.wait()
    """
    if folder is None:
        return Dashboard(planner_for(fleet), port)
    if fleet is not None:
        raise InvalidInput("a page shows a run or a planner for a fleet, got both; leave one out")
    return Dashboard(watched_in(folder), port)


@dataclass(frozen=True, eq=False)
class Planner:
    """What a planner page begins with."""

    fleet: "Fleet | None"
    """The fleet; None = an example."""
    name: str = "your fleet"
    """What it is called."""


def planner_for(given: Any) -> Planner:
    """Return a planner for a Fleet or a file; a fleet that is too large for the page is refused."""
    if given is None:
        return Planner(None)
    from sojourn.plan import fleet_of
    from sojourn.report.planner.question import rows_for
    from sojourn.report.planner.upload import fleet_in

    named = isinstance(given, str | Path)
    fleet = fleet_in(given) if named else fleet_of(given)
    rows_for(fleet)
    return Planner(fleet, Path(given).name) if named else Planner(fleet)


def watched_in(folder: str | Path) -> "Watched":
    """Return the run in a folder, live or simulated, to be watched."""
    place = Path(folder)
    if not place.is_dir():
        raise InvalidInput(f"there is no folder {folder}; name the folder of sojourn live or of sojourn train")
    if (place / "rows.bin").exists():
        from sojourn.live.watched_folder import WatchedFolder

        return WatchedFolder(place)
    from sojourn.report.live_page.training import WatchedTraining

    return WatchedTraining(place)


def check_port(port: int | None) -> None:
    """Refuse a page that could not be served, before any work is done."""
    if port is None:
        return
    from sojourn.report.web.serving import listening, need_libraries

    need_libraries()
    listening(port).close()


@contextmanager
def beside(run: "LiveRun", stop: threading.Event, port: int | None) -> Iterator["Serving | None"]:
    """Show a live run of this process during the block, with controls; without a port nothing is shown.

    The token lies in the run's folder. It is used again by the server that resumes the run, so that open pages come
    back by themselves, and is removed when the run has ended.
    """
    if port is None:
        yield None
        return
    from sojourn.live.watched_run import WatchedRun
    from sojourn.report.web.tokens import forget, token_in

    token = token_in(run.folder)
    with _served(WatchedRun(run, stop), token, port) as serving:
        yield serving
    if (run.folder / "summary.json").exists():
        forget(token)


@contextmanager
def beside_training(
    folder: Path, stop: threading.Event, port: int, token_here: bool = False
) -> Iterator[tuple[Dashboard, "TrainingControls"]]:
    """Show the training of this process during the block, with controls, whose `wait` it has to call now and then.

    With `token_here` the token lies in the run's folder meanwhile.
    """
    from sojourn.report.live_page.training import WatchedTraining
    from sojourn.report.live_page.training_controls import TrainingControls

    controls = TrainingControls(stop)
    with Dashboard(WatchedTraining(folder, controls), port, folder if token_here else None) as page:
        yield page, controls


def _served(watched: Any, token: "Token", port: int) -> "Serving":
    from sojourn.report.web.serving import need_libraries

    need_libraries()
    if isinstance(watched, Planner):
        from sojourn.report.planner.app import served as planner_served

        return planner_served(watched.fleet, watched.name, token, port)
    from sojourn.report.live_page.app import served

    return served(watched, token, port)
