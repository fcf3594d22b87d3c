"""The folder of a federation's keys: what lies where, made as a whole, and changed by one process at a time."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sojourn import secret_files
from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.files import claimed, read_bytes, writing
from sojourn.folders import check_folder, made
from sojourn.live import certificates
from sojourn.live.certificates import SERVES, Pair
from sojourn.live.loaded_keys import CA
from sojourn.live.registry import write_entries
from sojourn.shown import short

AUTHORITY, SERVER, CLIENTS = "authority", "server", "clients"  # the folders in it
CA_KEY, SERVER_PEM, SERVER_KEY, REGISTRY = "ca.key", "server.pem", "server.key", "clients.json"


@contextmanager
def opened(place: Path) -> Iterator[None]:
    """Create the folder if it is missing, and keep other processes from changing it; an error leaves no empty one."""
    check_folder(place)
    with made(place.absolute().parent):
        new = not place.exists()
        if new:
            secret_files.make_folder(place)
        try:
            with locked(place):
                yield
        except BaseException:
            with suppress(OSError):  # something is in it
                if new:
                    place.rmdir()
            raise


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Keep other processes from changing the folder, which must exist."""
    if not place.is_dir():
        raise UnreadableFile(f"folder of keys {place} does not exist; check the path")
    with (
        writing(place, "to"),
        claimed(place / ".lock", f"another process is changing the keys in {place}; wait for it to end"),
    ):
        yield


def is_new(place: Path) -> bool:
    """Whether there are no keys in the folder yet; refuse one that has lost its authority or its server.

    Neither can be made again: clients trust the one authority, and the server's folder knows who they are.
    """
    missing = [one for one in (place / AUTHORITY, place / SERVER) if not one.exists()]
    if len(missing) == 1:
        raise UnreadableFile(
            f"folder {missing[0]} does not exist, and cannot be made again; put a copy back, or name a new folder"
        )
    return bool(missing)


def found_federation(place: Path, hosts: tuple[str, ...], days: int) -> Pair:
    """Make the folders of the authority and of the server, which knows no client yet; return the authority."""
    authority = certificates.new_authority(days)
    with secret_files.new_folder(place / SERVER) as server, secret_files.new_folder(place / AUTHORITY) as home:
        write_pair(home, "ca", authority)
        write_pair(server, "server", _server_pair(authority, hosts, days))
        secret_files.create(server / CA, authority.certificate)
        write_entries(server / REGISTRY, {})
    return authority


def authority_of(place: Path) -> Pair:
    """Read the authority of the folder, which must still be valid."""
    certificate, key = place / AUTHORITY / CA, place / AUTHORITY / CA_KEY
    pair = Pair(read_bytes(certificate, "certificate", secret_files.MOST), secret_files.read(key, "key"))
    certificates.check_pair(pair, f"certificate {certificate}", f"key {key}")
    certificates.check_times(pair.certificate, f"certificate {certificate}")
    return pair


def renew_server(place: Path, authority: Pair, hosts: tuple[str, ...], days: int) -> bool:
    """Make the server's certificate again if it was removed together with its key; return whether that was so."""
    home = place / SERVER
    there = [home / name for name in (SERVER_PEM, SERVER_KEY) if (home / name).exists()]
    if len(there) == 1:
        raise UnreadableFile(f"{home} must have server.pem and server.key; remove {there[0]} to have both made again")
    if not there:
        write_pair(home, "server", _server_pair(authority, hosts, days))
    return not there


def check_hosts(place: Path, hosts: tuple[str, ...]) -> None:
    """Refuse hosts that the server's certificate is not for."""
    certificate = place / SERVER / SERVER_PEM
    has = certificates.hosts_of(read_bytes(certificate, "certificate"), f"certificate {certificate}")
    if set(hosts) - set(has):
        raise InvalidInput(
            f"the server's certificate is for {short(', '.join(has))}, got {short(', '.join(hosts))}; "
            f"remove server.pem and server.key from {place / SERVER} to have it made again"
        )


def write_pair(folder: Path, name: str, pair: Pair) -> None:
    """Write a certificate and its key; neither may exist."""
    secret_files.create(folder / f"{name}.key", pair.key)
    secret_files.create(folder / f"{name}.pem", pair.certificate)


def _server_pair(authority: Pair, hosts: tuple[str, ...], days: int) -> Pair:
    return certificates.issue(authority, "sojourn server", SERVES, days, hosts)
