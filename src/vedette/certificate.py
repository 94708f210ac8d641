"""The certificate of a home, with which its hub and its page use TLS. Other hubs trust it by its fingerprint alone."""

import hashlib
import hmac
import os
import ssl
from datetime import UTC, datetime, timedelta

from vedette.errors import SettingError
from vedette.fileio import make_once, read_private
from vedette.home import Home

_CERTIFICATE_DAYS = 3650


def path_of(home: Home) -> str:
    """Return the path of the home's key and certificate; `serving` makes them."""
    return os.path.join(home.root, "hub.pem")


def serving(home: Home) -> tuple[ssl.SSLContext, str]:
    """Return the TLS context of a hub that listens, and its fingerprint; make the certificate if there is none."""
    path = path_of(home)
    if not os.path.exists(path):
        make_once(path, _make_certificate())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        text = read_private(path).decode()
        context.load_cert_chain(path)
        start, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
        der = ssl.PEM_cert_to_DER_cert(text[text.index(start) : text.index(end) + len(end)])
    except (OSError, ValueError) as error:
        raise SettingError(
            f"the certificate {path} cannot be read ({error}): remove it, and a new one is made; whoever connects here"
            " then needs the new connect string"
        ) from None
    return context, hashlib.sha256(der).hexdigest()


def _make_certificate() -> bytes:
    """Return a key and a self-signed certificate: other hubs trust it by its fingerprint."""
    from cryptography import x509  # noqa: PLC0415 - only when a hub first listens beyond its machine
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "vedette hub")])
    begin = datetime.now(UTC) - timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=_CERTIFICATE_DAYS))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)


def calling() -> ssl.SSLContext:
    """Return the TLS context of a client. `is_the_one` checks the fingerprint after the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def is_the_one(certificate: bytes | None, fingerprint: str) -> bool:
    """Tell whether a certificate has the fingerprint that the connect string names."""
    found = hashlib.sha256(certificate or b"").hexdigest()
    return hmac.compare_digest(found, fingerprint)
