"""Loaded keys: what a server or a client proves with who it is, checked before the first connection."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from sojourn import secret_files
from sojourn.errors import UnreadableFile
from sojourn.files import read_bytes
from sojourn.live import certificates
from sojourn.live.certificates import Pair

CA, TOKEN_FILE = "ca.pem", "token"


@dataclass(frozen=True)
class ServerKeys:
    """What a server proves with that it is the server, and whose clients it admits; all in PEM form."""

    certificate: bytes
    """Certificate of the server."""
    key: bytes = field(repr=False)
    """Its private key."""
    authority: bytes
    """Certificate of the authority that signs clients."""

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read the folder of a server; keys that others can read, or that would not work, are refused."""
        return cls(*_load(Path(folder), "server"))


@dataclass(frozen=True)
class ClientKeys:
    """What a client proves with who it is, and which server it trusts; all in PEM form but the token."""

    certificate: bytes
    """Certificate of the client."""
    key: bytes = field(repr=False)
    """Its private key."""
    authority: bytes
    """Certificate of the authority that signs the server."""
    token: str = field(repr=False)
    """The secret that it sends with every call."""

    @property
    def name(self) -> str:
        """The name that the certificate was made for."""
        return certificates.common_name(self.certificate)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read the folder of a client; keys that others can read, or that would not work, are refused."""
        return cls(*_load(Path(folder), "client"), _token(Path(folder) / TOKEN_FILE))


def _load(folder: Path, name: str) -> tuple[bytes, bytes, bytes]:
    """Read certificate, key and authority, and check that a connection made with them could work."""
    paths = folder / f"{name}.pem", folder / f"{name}.key", folder / CA
    certificate, authority = (read_bytes(path, "certificate", secret_files.MOST) for path in (paths[0], paths[2]))
    pair = Pair(certificate, secret_files.read(paths[1], "key"))
    certificates.check_pair(pair, f"certificate {paths[0]}", f"key {paths[1]}")
    certificates.check_signed(certificate, f"certificate {paths[0]}", authority, f"certificate {paths[2]}")
    for pem, path in ((certificate, paths[0]), (authority, paths[2])):
        certificates.check_times(pem, f"certificate {path}")
    return certificate, pair.key, authority


def _token(path: Path) -> str:
    try:
        token = secret_files.read(path, "token").decode("ascii").strip()
    except UnicodeDecodeError:
        token = ""
    if not token or len(token.split()) > 1 or not token.isprintable():
        raise UnreadableFile(f"token {path} must hold one word; copy it again, or have it renewed")
    return token
