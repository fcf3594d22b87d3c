"""Certificates of a federation: an authority of its own, and what it signs for the server and the clients.

Keys are elliptic curve keys (P-256). A certificate says what it is for: a client's cannot serve, the server's cannot
join.
"""

import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.shown import quoted

AUTHORITY_DAYS = 3650  # an authority lives longer than what it signs: clients are added later
MOST_DAYS = 36_500
SKEW = timedelta(hours=1)  # a certificate is valid this long before it is made: clocks of machines differ
SERVES, JOINS = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_DNS = re.compile(rf"(?:\*\.)?(?:{_LABEL}\.)*(?!\d+$){_LABEL}")


class Pair(NamedTuple):
    """A certificate and its private key, as PEM."""

    certificate: bytes
    """The certificate."""
    key: bytes
    """Its key, not encrypted."""


def now() -> datetime:
    """Return the time by which certificates are valid."""
    return datetime.now(UTC)


def new_authority(days: int) -> Pair:
    """Make a certificate authority that lives so many days, and ten years at least."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named(f"sojourn federation {secrets.token_hex(4)}")
    made = _unsigned(name, name, key.public_key(), now() + timedelta(days=max(days, AUTHORITY_DAYS)))
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    made = made.add_extension(_usage(signs=True), critical=True)
    return Pair(_pem(made.sign(key, SHA256())), _private(key))


def issue(authority: Pair, name: str, purpose: ObjectIdentifier, days: int, hosts: Sequence[str] = ()) -> Pair:
    """Make a key and a certificate for it, which the authority signs; it never outlives the authority."""
    issuer = certificates(authority.certificate, "the authority's certificate")[0]
    signer = private_key(authority.key, "the authority's key")
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise UnreadableFile("the authority's key must be an elliptic curve key, it is another; is it the right file?")
    key = ec.generate_private_key(ec.SECP256R1())
    until = min(now() + timedelta(days=days), issuer.not_valid_after_utc)
    made = _unsigned(_named(name), issuer.subject, key.public_key(), until)
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = made.add_extension(_usage(signs=False), critical=True)
    made = made.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    above = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    made = made.add_extension(above, critical=False)
    if hosts:
        made = made.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    return Pair(_pem(made.sign(signer, SHA256())), _private(key))


def check_days(days: int) -> None:
    """Refuse a number of days that no certificate is valid for."""
    if not isinstance(days, int) or isinstance(days, bool) or not 1 <= days <= MOST_DAYS:
        raise InvalidInput(f"days must be a whole number from 1 to {MOST_DAYS:,}, got {quoted(days)}; 365 is usual")


def checked_hosts(hosts: Sequence[str]) -> tuple[str, ...]:
    """Return names and addresses of the server in the form in which its certificate has them.

    >>> checked_hosts(["fl.example.org", "10.0.0.5", "[::1]", "0:0:0:0:0:0:0:1"])
    ('fl.example.org', '10.0.0.5', '::1')
    """
    found = [] if isinstance(hosts, str) else [_text_of(_host(host)) for host in hosts]
    if not found:
        raise InvalidInput(f"hosts must name the server at least once, got {quoted(hosts)}; give its name or address")
    return tuple(dict.fromkeys(found))


def hosts_of(certificate: bytes, what: str) -> tuple[str, ...]:
    """Return the names and addresses that a certificate is for."""
    try:
        names = certificates(certificate, what)[0].extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    return tuple(_text_of(one) for one in names.value)


def common_name(certificate: bytes) -> str:
    """Return the name that a certificate was made for."""
    found = certificates(certificate, "certificate")[0].subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def until(certificate: bytes, what: str) -> datetime:
    """Return when a certificate expires."""
    return certificates(certificate, what)[0].not_valid_after_utc


def certificates(pem: bytes, what: str) -> list[x509.Certificate]:
    """Read certificates, at least one."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise UnreadableFile(f"{what} is not a certificate in PEM form; is it the right file, and whole?") from None


def private_key(pem: bytes, what: str) -> PrivateKeyTypes:
    """Read a private key that is not encrypted."""
    try:
        return load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # a TypeError if it has a password
        raise UnreadableFile(
            f"{what} is not a private key in PEM form without a password; is it the right file, and whole?"
        ) from None


def check_times(pem: bytes, what: str) -> None:
    """Refuse a certificate that has expired, or is not valid yet."""
    first = certificates(pem, what)[0]
    begins, ends = first.not_valid_before_utc, first.not_valid_after_utc
    if now() > ends:
        raise InvalidInput(f"{what} must be valid now, it expired on {ends:%Y-%m-%d at %H:%M} UTC; have it made again")
    if now() < begins:
        raise InvalidInput(
            f"{what} must be valid now, it is so from {begins:%Y-%m-%d at %H:%M} UTC; is this machine's clock right?"
        )


def check_pair(pair: Pair, what: str, key: str) -> None:
    """Refuse a certificate that does not belong to its key."""
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    held = private_key(pair.key, key).public_key()
    if certificates(pair.certificate, what)[0].public_key().public_bytes(*form) != held.public_bytes(*form):
        raise InvalidInput(f"{what} must belong to {key}, it is of another key; copy both from the same folder")


def check_signed(pem: bytes, what: str, authority: bytes, by: str) -> None:
    """Refuse a certificate, or a chain of them, whose last link the authority has not signed."""
    last = certificates(pem, what)[-1]
    if not any(_signed(last, one) for one in certificates(authority, by)):
        raise InvalidInput(f"{what} must be signed by {by}, it is not; copy both from the same folder")


def _signed(one: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        one.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature):
        return one == by  # a chain may go up to the authority itself
    return True


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, until: datetime
) -> x509.CertificateBuilder:
    """Return the part that all certificates share."""
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now() - SKEW).not_valid_after(until)
    return made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _usage(signs: bool) -> x509.KeyUsage:
    """Return what a key may do: sign certificates, or prove who speaks."""
    never = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only"), False
    )
    return x509.KeyUsage(digital_signature=not signs, key_cert_sign=signs, crl_sign=signs, decipher_only=False, **never)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    """Read a host name, or an address of either kind."""
    if isinstance(host, str) and "%" not in host:  # the part of an address after % holds on one machine alone
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        with suppress(ValueError):
            return x509.IPAddress(ip_address(bare))
        if len(host) <= 253 and _DNS.fullmatch(host):
            return x509.DNSName(host.lower())
    raise InvalidInput(
        f"a host must be a name or an address, got {quoted(host)}; write for example fl.example.org, 10.0.0.5 or ::1, "
        "without a port"
    )


def _text_of(name: x509.GeneralName) -> str:
    return str(name.value)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
