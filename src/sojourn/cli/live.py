"""`sojourn live`: a real federation. This file has its verbs; each parses, calls and prints."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.cli.arguments import AsJson
from sojourn.cli.command import Command, WithoutTables
from sojourn.cli.live_run import client, local, server
from sojourn.errors import InvalidInput, SojournError

if TYPE_CHECKING:
    from sojourn.live.keys import MadeKeys

MOST_CLIENTS = 100_000  # of --count
SECRET = "the folders hold secrets: copy them over a safe channel and keep their permissions, as scp -rp does"
READ = "a running server reads clients.json within a second; copy it there if the server runs on another machine"

HELP = """Run a real federation: a server, and clients that dial in.

`local` runs a whole federation on this machine. For several machines begin with the keys: `sojourn live keys` makes one
folder for the server and one for each client.

Examples:
- `sojourn live local fleet.csv --time 30s --data digits --out live/`

- `sojourn live keys keys/ --clients lyon,oslo,porto --host fl.example.org`

- `sojourn live keys keys/ --revoke oslo`

"""

live = typer.Typer(
    name="live",
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


def keys(
    folder: Annotated[Path, typer.Argument(help="Folder of the keys; it is created if missing.")],
    clients: Annotated[
        str | None, typer.Option(help="Names of new clients, `a,b,c`: letters, digits, dots, _ and -.", metavar="NAMES")
    ] = None,
    client: Annotated[
        list[str] | None, typer.Option(help="Name of a new client; may be repeated.", metavar="NAME")
    ] = None,
    count: Annotated[int | None, typer.Option(help="Number of new clients, named PREFIX0, PREFIX1, ...")] = None,
    prefix: Annotated[str | None, typer.Option(help="How the names of --count begin (default: client-).")] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="Name or address under which clients reach the server, such as `fl.example.org`, `10.0.0.5` or "
            "`::1`; may be repeated (default: 127.0.0.1 and localhost).",
            metavar="HOST",
        ),
    ] = None,
    days: Annotated[int, typer.Option(help="Days for which new certificates are valid.")] = 365,
    revoke: Annotated[
        list[str] | None, typer.Option(help="Admit this client no more, for ever; may be repeated.", metavar="NAME")
    ] = None,
    renew: Annotated[
        list[str] | None,
        typer.Option(help="Give this client a new token; the old one is refused. May be repeated.", metavar="NAME"),
    ] = None,
    reissue: Annotated[
        list[str] | None,
        typer.Option(
            help="Give this client a new key, certificate and token, as when its certificate expires; may be repeated.",
            metavar="NAME",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make the keys of a federation: who may serve, and who may join.

    The folder gets a certificate authority of the federation's own, a certificate for the server, and a certificate and
    a token for each client. Calling it again adds further clients; nothing that exists is written over. Tokens are
    never printed, and the server knows only their hashes. A revocation takes effect while the server runs.

    To have the server's certificate made again, for other hosts or before it expires, remove server.pem and server.key
    from its folder and call this again.

    Examples:
    - `sojourn live keys keys/ --clients lyon,oslo,porto --host fl.example.org`

    - `sojourn live keys keys/ --count 10 --host 10.0.0.5 --days 90`

    - `sojourn live keys keys/ --client quito`

    - `sojourn live keys keys/ --revoke oslo`

    - `sojourn live keys keys/ --renew lyon`

    - `sojourn live keys keys/ --reissue porto --days 90`

    """
    _check_package()
    names = _names(clients, client, count, prefix)
    changed = {"revoke": revoke or [], "renew": renew or [], "reissue": reissue or []}
    if any(changed.values()):
        if names or host:
            flag = next(f"--{verb}" for verb, which in changed.items() if which)
            raise InvalidInput(f"{flag} excludes new clients and hosts, got both; call sojourn live keys twice")
        _change(folder, changed, days, as_json)
        return
    from sojourn.live.keys import make_keys

    _show(make_keys(folder, names, days=days, **({"hosts": host} if host else {})), as_json)


def _names(clients: str | None, client: list[str] | None, count: int | None, prefix: str | None) -> list[str]:
    """Return the names of all new clients, in whichever way they are given."""
    if count is None and prefix is not None:
        raise InvalidInput(f"--prefix needs --count, got --prefix '{prefix}' alone; write for example --count 10")
    if count is not None and not 1 <= count <= MOST_CLIENTS:
        raise InvalidInput(f"--count must be a whole number from 1 to {MOST_CLIENTS:,}, got {count}; 10 for example")
    listed = [] if clients is None else [name.strip() for name in clients.split(",")]
    begin = "client-" if prefix is None else prefix
    return [*listed, *(client or []), *(f"{begin}{index}" for index in range(count or 0))]


def _check_package() -> None:
    """Raise an error before the work begins if the package for certificates is missing."""
    from importlib.util import find_spec

    if find_spec("cryptography") is None:
        raise SojournError("keys need the package cryptography, which is not installed; pip install 'sojourn[live]'")


def _show(made: "MadeKeys", as_json: bool) -> None:
    """Print what was made, and where each folder has to go."""
    from sojourn.cli.show import plural, print_json, table
    from sojourn.live.registry import read_entries

    if as_json:
        folders = [{"name": name, "folder": str(path)} for name, path in made.clients.items()]
        facts = {"authority": str(made.authority), "server": str(made.server), "new_server": made.new_server}
        days = {"hosts": list(made.hosts), "valid_until": made.until.isoformat()}
        print_json({"command": "live keys", **facts, **days, "clients": folders})
        return
    rows = [[name, str(path), "to this client"] for name, path in made.clients.items()]
    notes = [SECRET]
    if made.new_server:
        rows.insert(0, ["server", str(made.server), f"to the server, {' or '.join(made.hosts)}"])
        rows.insert(0, ["authority", str(made.authority), "nowhere: its key admits clients, so keep it safe"])
    elif made.clients:
        rows.insert(0, ["server", str(made.server / "clients.json"), f"to the server, {' or '.join(made.hosts)}"])
        notes.append(READ)
    title = f"{plural(len(made.clients), 'new client')}, certificates valid until {made.until:%Y-%m-%d}"
    if made.new_server and not made.clients:
        title = f"a new certificate of the server, valid until {made.until:%Y-%m-%d}"
    if made.new_server and read_entries(made.server / "clients.json").keys() > made.clients.keys():
        notes.append("a running server takes up its new certificate when it is started again with it")
    elif not made.clients:
        notes.append("there are no new clients; add some with --clients, --client or --count")
    table(title, ["who", "place", "where it goes"], rows, notes)


def _change(folder: Path, changed: dict[str, list[str]], days: int, as_json: bool) -> None:
    """Revoke clients, or give them new tokens or keys; what was done before an error is printed too."""
    from sojourn.live import keys as made

    rows: list[list[str]] = []
    try:
        for name in changed["revoke"]:
            rows.append([name, "revoked", str(made.revoke(folder, name)), "to the server"])
        for name in changed["renew"]:
            rows.append([name, "new token", str(made.renew_token(folder, name)), "to this client"])
        for name in changed["reissue"]:
            rows.append([name, "new keys", str(made.reissue(folder, name, days)), "to this client"])
    finally:
        if rows:
            _show_changes(folder, rows, as_json)


def _show_changes(folder: Path, rows: list[list[str]], as_json: bool) -> None:
    from sojourn.cli.show import print_json, table

    if as_json:
        facts = [dict(zip(("name", "state", "place"), row, strict=False)) for row in rows]
        print_json({"command": "live keys", "registry": str(folder / "server" / "clients.json"), "changed": facts})
        return
    secret = [SECRET] if any(row[1] != "revoked" for row in rows) else []
    table(f"keys in {folder}", ["client", "state", "place", "where it goes"], rows, [*secret, READ])


live.command(cls=WithoutTables)(server)
live.command(cls=WithoutTables)(client)
live.command(cls=WithoutTables)(local)
live.command(cls=Command)(keys)
