"""Keys of a federation: who may serve, who may join, and how each proves it.

`make_keys` writes one folder per party:

    FOLDER/authority/      ca.pem ca.key                              stays with whoever admits clients
    FOLDER/server/         ca.pem server.pem server.key clients.json  goes to the server
    FOLDER/clients/NAME/   ca.pem client.pem client.key token         goes to that client

A client needs both its certificate and its token. The server knows tokens by their hashes only.
"""

import secrets
import shutil
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from sojourn import secret_files
from sojourn.errors import InvalidInput
from sojourn.files import read_bytes
from sojourn.live import certificates
from sojourn.live.certificates import JOINS, Pair
from sojourn.live.key_folder import (
    AUTHORITY,
    CLIENTS,
    REGISTRY,
    SERVER,
    SERVER_PEM,
    authority_of,
    check_hosts,
    found_federation,
    is_new,
    locked,
    opened,
    renew_server,
    write_pair,
)
from sojourn.live.loaded_keys import CA, TOKEN_FILE, ClientKeys, ServerKeys
from sojourn.live.registry import (
    Entries,
    Entry,
    Registry,
    Unknown,
    check_name,
    fingerprint,
    read_entries,
    token_hash,
    write_entries,
)
from sojourn.shown import quoted
from sojourn.text import nearest

__all__ = [
    "ClientKeys",
    "MadeKeys",
    "Registry",
    "ServerKeys",
    "Unknown",
    "make_keys",
    "reissue",
    "renew_token",
    "revoke",
]

HOSTS = ("127.0.0.1", "localhost")
TOKEN = 32  # random bytes of a token


class MadeKeys(NamedTuple):
    """What `make_keys` has made."""

    authority: Path
    """Folder of the authority."""
    server: Path
    """Folder of the server."""
    clients: dict[str, Path]
    """Folder of each client that is new, by name."""
    hosts: tuple[str, ...]
    """Names and addresses that the server's certificate is for."""
    until: datetime
    """When the first of the certificates, the server's or a new client's, expires."""
    new_server: bool
    """Whether the server's certificate is new."""


def make_keys(folder: str | Path, clients: Sequence[str], hosts: Sequence[str] = HOSTS, days: int = 365) -> MadeKeys:
    """Make keys for a federation, or for further clients of one; nothing that exists is written over.

    The server's certificate is for `hosts`, under which clients reach it. Certificates are valid for so many days. To
    have the server's made again, for other hosts or because it expires, remove server.pem and server.key first.
    """
    names, wanted = _checked_names(clients), certificates.checked_hosts(hosts)
    certificates.check_days(days)
    place = Path(folder)
    with opened(place):
        new = is_new(place)
        authority = found_federation(place, wanted, days) if new else authority_of(place)
        new = new or renew_server(place, authority, wanted, days)
        if tuple(hosts) != HOSTS:
            check_hosts(place, wanted)
        ends = _add_clients(place, authority, names, days)
        served = read_bytes(place / SERVER / SERVER_PEM, "certificate")
    what = f"certificate {place / SERVER / SERVER_PEM}"
    return MadeKeys(
        place / AUTHORITY,
        place / SERVER,
        {name: place / CLIENTS / name for name in names},
        certificates.hosts_of(served, what),
        min([certificates.until(served, what), *ends]),
        new,
    )


def revoke(folder: str | Path, name: str) -> Path:
    """Admit a client no more, for ever; return the registry, which the server must have."""
    with locked(Path(folder)):
        return _update(Path(folder), name, revoked=True)


def renew_token(folder: str | Path, name: str) -> Path:
    """Give a client a new token, so that the old one is worth nothing; return the file that it is in."""
    with locked(Path(folder)):
        return _renew(Path(folder), name, None) / TOKEN_FILE


def reissue(folder: str | Path, name: str, days: int = 365) -> Path:
    """Give a client a new key, certificate and token, as when its certificate expires; return its folder."""
    certificates.check_days(days)
    with locked(Path(folder)):
        return _renew(Path(folder), name, days)


def _renew(place: Path, name: str, days: int | None) -> Path:
    """Write a new token, and unless `days` is None a new key and certificate; return the client's folder."""
    if _known(place, name)[name].revoked:
        raise InvalidInput(f"client {quoted(name)} is revoked, so it gets no new keys; add it under another name")
    home, token = place / CLIENTS / name, secrets.token_urlsafe(TOKEN)
    files, changed = {TOKEN_FILE: f"{token}\n".encode()}, {"token_sha256": token_hash(token)}
    if days is not None:
        authority = authority_of(place)
        pair = certificates.issue(authority, name, JOINS, days)
        files |= {"client.key": pair.key, "client.pem": pair.certificate, CA: authority.certificate}
        changed["certificate_sha256"] = fingerprint(pair.certificate)
    for missing in (one for one in (home.parent, home) if not one.exists()):  # it may have been moved to the client
        secret_files.make_folder(missing)
    for file, content in files.items():
        secret_files.replace(home / file, content)
    _update(place, name, **changed)
    return home


def _update(place: Path, name: str, **changed: Any) -> Path:
    """Change the entry of a client in the registry; return the registry."""
    entries, registry = _known(place, name), place / SERVER / REGISTRY
    write_entries(registry, entries | {name: entries[name]._replace(**changed)})
    return registry


def _known(place: Path, name: str) -> Entries:
    """Return the entries of all clients, one of which must have this name."""
    entries = read_entries(place / SERVER / REGISTRY)
    if name not in entries:
        hint = nearest(str(name), entries) or "; check the name"
        raise InvalidInput(f"there is no client {quoted(name)} in {place}{hint}")
    return entries


def _checked_names(clients: Sequence[str]) -> list[str]:
    if isinstance(clients, str):
        raise InvalidInput(f"clients must be a list of names, got {quoted(clients)}; write for example ['a', 'b']")
    names = [check_name(name) for name in clients]
    twice = next((name for name, many in Counter(names).items() if many > 1), None)
    if twice is not None:
        raise InvalidInput(f"every client must be named once, got {quoted(twice)} twice; leave one out")
    return names


def _add_clients(place: Path, authority: Pair, names: list[str], days: int) -> list[datetime]:
    """Make the folders of clients and register them, all or none; return when their certificates expire."""
    registry, home = place / SERVER / REGISTRY, place / CLIENTS
    entries = read_entries(registry)
    for name in names:
        if name in entries:
            raise InvalidInput(
                f"client {quoted(name)} exists already in {place}; leave it out, renew its token, or take another name"
            )
    if names and not home.exists():
        secret_files.make_folder(home)
    fresh: Entries = {}
    ends: list[datetime] = []
    try:
        for name in names:
            fresh[name], end = _make_client(home / name, authority, days)
            ends.append(end)
        if fresh:
            write_entries(registry, entries | fresh)
    except BaseException:
        for name in fresh.keys() - read_entries(registry).keys():
            shutil.rmtree(home / name, ignore_errors=True)
        raise
    return ends


def _make_client(place: Path, authority: Pair, days: int) -> tuple[Entry, datetime]:
    if place.exists():
        raise InvalidInput(f"folder {place} exists, but the server does not know this client; remove it or rename it")
    pair, token = certificates.issue(authority, place.name, JOINS, days), secrets.token_urlsafe(TOKEN)
    with secret_files.new_folder(place) as folder:
        write_pair(folder, "client", pair)
        secret_files.create(folder / CA, authority.certificate)
        secret_files.create(folder / TOKEN_FILE, f"{token}\n".encode())
    end = certificates.until(pair.certificate, "certificate")
    return Entry(token_hash(token), fingerprint(pair.certificate)), end
