"""Whose program is at the other end of a TCP connection within this machine: every user may connect to a port of it.

A browser sends its cookies to all ports of a host, and a port whose program has ended can be taken by anybody: so a
token alone does not tell one user from another here. The kernel does (netlink, NETLINK_SOCK_DIAG).
"""

import errno
import ipaddress
import os
import socket
import struct
from typing import NamedTuple

from vedette.guard import is_loopback

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_ERROR = 2  # the type of an answer that has only an errno
_ALL_STATES = 0xFFFFFFFF
_ANY_COOKIE = b"\xff" * 8
_HEAD = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_QUESTION = struct.Struct("=BBBBI")  # family, protocol, extensions, padding, states; the ends follow
_ENDS = struct.Struct("!HH16s16s")  # ports and addresses, its own end first
_INTERFACE = struct.Struct("=I8s")  # and a cookie
_BEFORE_ENDS = 4  # bytes of an answer
_WHOSE = struct.Struct("=IIIII")  # behind them: expires, queues, uid, inode
_WITHIN_S = 1.0

End = tuple[str, int]  # address and port


class _Socket(NamedTuple):
    uid: int
    inode: int  # 0: no program holds it: it is closed, or not accepted yet


def is_strangers(theirs: End, ours: End) -> bool:
    """Tell whether the other end of a connection that we have accepted is another user's, or was closed meanwhile.

    Root is a stranger to nobody. False as well for what comes from another machine, and where the kernel does not tell.
    """
    try:
        found = _find(theirs, ours)
        if found is None:  # some kernels say of every socket that there is none, of ours, too
            return is_loopback(ours[0]) and _find(ours, theirs) is not None
    except OSError:
        return False
    return not found.inode or not _is_trusted(found.uid)


def listener_is_strangers(theirs: End, ours: End) -> bool:
    """Tell whether a port of this machine that we have connected to is another user's."""
    try:
        found = _find(theirs, ours)
        if found is not None and not found.inode:  # not accepted yet
            found = _find(theirs, ("::" if ":" in theirs[0] else "0.0.0.0", 0))  # noqa: S104 - whoever listens there
    except OSError:
        return False
    return found is not None and not _is_trusted(found.uid)


def _is_trusted(uid: int) -> bool:
    return uid in (0, os.geteuid())


def _find(own: End, peer: End) -> _Socket | None:
    """Return the socket of this machine that has these ends, or listens at its own; None if there is none.

    Raise OSError where the kernel does not tell.
    """
    here, there = (_address(end[0]) for end in (own, peer))
    family = socket.AF_INET if here.version == 4 else socket.AF_INET6
    ends = _ENDS.pack(own[1], peer[1], here.packed, there.packed)
    # What is bound to an interface is found only by that one; a connection within this machine goes over `lo`.
    ends += _INTERFACE.pack(socket.if_nametoindex("lo"), _ANY_COOKIE)
    question = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES) + ends
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_WITHIN_S)
        kernel.sendto(_HEAD.pack(_HEAD.size + len(question), _SOCK_DIAG_BY_FAMILY, 1, 1, 0) + question, (0, 0))
        answer = kernel.recv(1 << 12)
    if _HEAD.unpack_from(answer)[1] == _ERROR:
        number = -int(struct.unpack_from("=i", answer, _HEAD.size)[0])
        if number == errno.ENOENT:
            return None
        raise OSError(number, os.strerror(number))
    *_, uid, inode = _WHOSE.unpack_from(answer, _HEAD.size + _BEFORE_ENDS + len(ends))
    return _Socket(uid, inode)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Read an address as the one of the socket that it belongs to: an IPv6 socket also takes connections of IPv4."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        raise OSError(errno.EINVAL, f"{text!r} is no address") from None
    return getattr(found, "ipv4_mapped", None) or found
