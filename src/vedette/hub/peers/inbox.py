"""An inbox: a spool that holds the shipments of one connection until they are committed. `inbox_reader` reads it."""

import os
from collections.abc import Callable

from vedette import wire
from vedette.fileio import file_size, make_private_directory
from vedette.model import LANE_SAMPLES, Origin
from vedette.segment import list_segments, segment_name
from vedette.spool import Spool

LANE = LANE_SAMPLES  # the only one of an inbox
_LOOK_BYTES = 1 << 20


class _InboxSpool(Spool):
    """A spool that never drops its oldest segment: its records are acknowledged, or will be."""

    def make_room(self, wanted: int, least: int, lane: str) -> int:  # noqa: ARG002 - one lane only
        """Return the size of the next segment. Making it fails when the disk has no room for it."""
        return max(wanted, -(-least // 4096) * 4096)


class Inbox:
    """Where one connection's shipments are written before they are acknowledged."""

    def __init__(
        self, root: str, name: str, relay: str, cap_bytes: int, of_relay: Callable[[], list[str]] | None = None
    ) -> None:
        """Make it for a relay; it is full when `cap_bytes` wait in all inboxes of the relay, which `of_relay` names."""
        self.name = name
        self.appended = 0  # bytes, since it was made
        self._root = root
        self._of_relay = of_relay or (lambda: [name])
        self._cap_bytes = cap_bytes
        self._checked = -_LOOK_BYTES  # `appended` when it last had room
        self._spool = _InboxSpool(root, lambda: Origin(name, host=relay), cap_bytes, 1.0)
        make_private_directory(root)
        make_private_directory(os.path.join(root, name))

    def append(self, payload: bytes) -> None:
        """Write a shipment; raise OSError when the disk has no room for it."""
        lane = self._spool.samples
        lost = lane.lost
        lane.append(wire.frame(payload))
        if lane.lost > lost:
            raise OSError(f"the inbox cannot be written to: {self._spool.trouble}")
        self.appended += len(payload)

    def is_full(self) -> bool:
        """Tell whether so much of its relay waits that its connection should not be read for now."""
        if self.appended - self._checked < _LOOK_BYTES:
            return False
        directories = [os.path.join(self._root, name) for name in self._of_relay()]
        waiting = sum(
            file_size(os.path.join(directory, segment_name(LANE, offset)))
            for directory in directories
            for offset in list_segments(directory, LANE)
        )
        if waiting < self._cap_bytes:
            self._checked = self.appended
        return waiting >= self._cap_bytes

    def close(self) -> None:
        """Say that nothing will follow."""
        self._spool.close()
