"""What can go wrong outside the user's process, and how it is said.

VedetteError            the root; the command line prints its sentence and exits with 2
    SettingError        a setting is unknown or has a bad value
    WhereError          a `--where` expression cannot be understood
    NotFoundError       no run, series or store goes by that name
    AmbiguousError      more than one run does
    MissingError        a library that this needs is not installed
    FormatError         bytes that are not what they should be
        VersionError    bytes written by a newer vedette than this one
        OldStoreError   a store of an older one, which must be brought up to date before it can be read
    BlobError           bytes that cannot be kept, or are not asked for by a digest
    StoreError          the store cannot be written to now: its disk is full, or another holds it
    MonitorError        a monitor cannot be started
    HubError            the hub cannot be started or does not answer
        TakeInError     what was to be taken in cannot be; the hub says why
        StrangerError   a directory that should be ours is somebody else's (also a PermissionError)

The client raises none of these into the user's code: see `client/faults.py`.
"""


class VedetteError(Exception):
    """Root of all errors that vedette raises on purpose."""


class SettingError(VedetteError):
    """A setting is unknown or has a value that it cannot take."""


class WhereError(VedetteError):
    """A `where` expression that does not parse."""


class NotFoundError(VedetteError):
    """Nothing goes by that name."""


class AmbiguousError(VedetteError):
    """A prefix or name that fits more than one run."""


class MissingError(VedetteError):
    """A library that is needed only for this is not installed."""


class FormatError(VedetteError):
    """Bytes that do not have the form they claim."""


class VersionError(FormatError):
    """Bytes of a newer format than this vedette reads."""


class OldStoreError(FormatError):
    """A store that must be brought up to date before it can be read."""


class BlobError(VedetteError):
    """Bytes that cannot be kept or found; `limit` is the one that they are over, if any."""

    def __init__(self, text: str, limit: str = "") -> None:
        super().__init__(text)
        self.limit = limit


class StoreError(VedetteError):
    """The store cannot be written to now; nothing of what was to be kept is."""


class MonitorError(VedetteError):
    """A monitor cannot be started."""


class HubError(VedetteError):
    """The hub cannot be started, or does not answer."""


class TakeInError(HubError):
    """The hub cannot take in what it was asked to."""


class StrangerError(HubError, PermissionError):
    """A directory that should be ours is somebody else's."""
