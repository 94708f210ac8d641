"""Who a relay is: each home has a key pair, made at its first contact with another hub (decisions/033).

The other hub sends a challenge, and the relay signs it together with what only this connection has: the token that it
sent, and the certificate that it has checked. So a signature is of no use at any other hub.
"""

import hashlib
import os
from typing import TYPE_CHECKING

from vedette import wire
from vedette.errors import HubError, SettingError
from vedette.fileio import make_once, read_private
from vedette.home import Home

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

CHALLENGE_BYTES = 32
_KEY_BYTES = 32


def identify(home: Home, challenge: bytes, token: str, fingerprint: str) -> wire.Identify:
    """Return the message by which the hub of a home shows who it is; make its key if there is none."""
    key = _key_of(home)
    signature = key.sign(_signed(challenge, token, fingerprint))
    return wire.Identify(key.public_key().public_bytes_raw(), signature)


def identity_of(message: wire.Identify, challenge: bytes, token: str, fingerprint: str) -> str:
    """Return the id of a relay, which is a digest of its key; raise HubError when its signature is wrong."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - only where other hubs connect
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    try:
        key = Ed25519PublicKey.from_public_bytes(message.key)
        key.verify(message.signature, _signed(challenge, token, fingerprint))
    except (InvalidSignature, ValueError):
        raise HubError("the signature of this relay is wrong: it is not who it says it is") from None
    return hashlib.sha256(message.key).hexdigest()[:32]


def _signed(challenge: bytes, token: str, fingerprint: str) -> bytes:
    return b"vedette relay\0" + challenge + hashlib.sha256(token.encode()).digest() + fingerprint.encode()


def _key_of(home: Home) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 - see above

    path = os.path.join(home.root, "relay.key")
    if not os.path.exists(path):
        make_once(path, Ed25519PrivateKey.generate().private_bytes_raw())
    data = read_private(path)
    if len(data) != _KEY_BYTES or not any(data):
        what = (
            "is not the key of a relay" if any(data) else "is empty, as a power cut can leave it, and the key is lost"
        )
        raise SettingError(
            f"{path} {what}: bring it back from a backup; or remove it, and other hubs take this"
            " home for a new relay, which may not go on with what the old one has shipped"
        )
    return Ed25519PrivateKey.from_private_bytes(data)
