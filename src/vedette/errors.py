"""The errors that vedette raises outside the user's code.

VedetteError            the root; the command line prints its message and exits with 2
    SettingError        a setting is unknown or has a bad value
    WhereError          a `--where` expression cannot be parsed
    NotFoundError       there is no run, series or store of that name
    AmbiguousError      several runs match a name
    MissingError        a library that this needs is not installed
    FormatError         bytes are malformed
        VersionError    bytes were written by a newer vedette than this one
        OldStoreError   a store of an older vedette must be upgraded before it can be read
    BlobError           a file cannot be saved or found
    StoreError          the store cannot be read or written now: its disk is full, or its file cannot be opened
        LockedError     another program has locked it
        DamagedError    its file has bytes that no store has
    MonitorError        a monitor cannot be started
    HubError            the hub cannot be started or does not answer
        TakeInError     the hub cannot take in a spool, a home or an archive; it says why
        StrangerError   a directory, or the other end of a socket, is another user's (also a PermissionError)

The client raises none of these into the user's code: see `client/faults.py`.
"""


class VedetteError(Exception):
    """Root of all errors that vedette raises on purpose."""


class SettingError(VedetteError):
    """A setting is unknown or has a bad value."""


class WhereError(VedetteError):
    """A `where` expression cannot be parsed."""


class NotFoundError(VedetteError):
    """There is nothing of that name."""


class AmbiguousError(VedetteError):
    """A prefix or name matches more than one run."""


class MissingError(VedetteError):
    """An optional library that this needs is not installed."""


class FormatError(VedetteError):
    """Bytes are malformed."""


class VersionError(FormatError):
    """Bytes have a newer format than this vedette can read."""


class OldStoreError(FormatError):
    """A store must be upgraded before it can be read."""


class BlobError(VedetteError):
    """A file cannot be saved or found; `limit` is the setting that it exceeds, if any."""

    def __init__(self, text: str, limit: str = "") -> None:
        super().__init__(text)
        self.limit = limit


class StoreError(VedetteError):
    """The store cannot be read or written now; nothing of this write was stored."""


class LockedError(StoreError):
    """Another program has locked the store."""


class DamagedError(StoreError):
    """The file of the store has bytes that no store has: it was overwritten, cut short, or is something else."""


class MonitorError(VedetteError):
    """A monitor cannot be started."""


class HubError(VedetteError):
    """The hub cannot be started, or does not answer."""


class TakeInError(HubError):
    """The hub cannot take in what it was asked to."""


class StrangerError(HubError, PermissionError):
    """A directory, or the other end of a socket, should be ours and belongs to another user."""
