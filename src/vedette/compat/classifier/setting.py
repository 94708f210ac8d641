"""The settings of the classifier's monitor, `-setting monitor.Usage "enable: true"`, translated to our settings."""

import difflib
from collections.abc import Mapping
from typing import Any

import yaml

from vedette import settings
from vedette.errors import SettingError

# By setting: its default, and the setting of ours that it becomes. "": `__main__` handles it by name. None: it has no
# effect here, and the user is told so if he gives another value.
KNOWN: dict[str, dict[str, tuple[Any, str | None]]] = {
    "Monitor": {
        "enable": (True, ""),
        "address": (":10200", ""),
        "connect": (False, ""),
        "file": ("meta.json", None),  # the store has the processes
        "log_show_connection": (False, None),
        "retry_max": (1, None),  # what is logged waits on disk until it has arrived
        "socket_timeout": (None, None),
        "warnings_ignore": (False, ""),  # the original's default True hides all warnings of the user
    },
    "monitor.Console": {"enable": (True, ""), "interval": (1.0, None), "fps": (10, None)},
    "monitor.Web": {"enable": (False, None)},
    "monitor.Log": {
        "enable": (True, "logs.enable"),
        "level": (20, "logs.level"),
        "file": ("logs.html", None),
        "forward_exception": (True, None),  # exceptions are always shown and recorded
        "exit_on_exception": (False, None),
    },
    "monitor.Progress": {"enable": (True, None)},
    "monitor.Usage": {
        "enable": (False, "usage.enable"),
        "interval": (1.0, "usage.interval_s"),
        "gpu": (True, "usage.gpu"),
        "file": ("usage.json", None),
        "gpu_force_torch": (False, None),
    },
    "monitor.Input": {"enable": (True, None)},
    "monitor.Notification": {"enable": (True, None)},
    "monitor.Gmail": {
        "enable": (True, None),
        "address": (None, None),
        "password": (None, None),
        "smtp_server": ("smtp.gmail.com", None),
        "smtp_port": (465, None),
    },
    "IO": {
        "output": ("./{main}-{timestamp}/", ""),
        "report": ("report", ""),
        "timestamp": ("%Y-%m-%dT%H-%M-%S", ""),
        "monitor": ("diagnostics", None),
    },
    "Analysis": {"enable": (True, None), "max_workers": (1, None)},
    "Multiprocessing": {
        "context_method": ("forkserver", None),
        "context_library": ("torch", None),
        "preload": (["torch"], None),
    },
}


class Chosen:
    """What was set on the command line."""

    def __init__(self) -> None:
        self._set: dict[tuple[str, str], Any] = {}

    def add(self, section: str, text: str) -> None:
        """Read one `-setting SECTION "key: value"`; raise SettingError if it is not valid."""
        if section not in KNOWN:
            raise SettingError(f"there is no setting {section!r}; did you mean {_nearest(section, KNOWN)!r}?")
        try:
            values = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise SettingError(f"-setting {section} {text!r} is not YAML: {' '.join(str(error).split())}") from None
        if not isinstance(values, Mapping):
            raise SettingError(f"-setting {section} takes KEY: VALUE, or {{KEY: VALUE, ...}}, not {text!r}")
        for key, value in values.items():
            if key not in KNOWN[section]:
                near = _nearest(str(key), KNOWN[section])
                raise SettingError(f"{section} has no setting {str(key)!r}; did you mean {near!r}?")
            if isinstance(KNOWN[section][key][0], bool) and not isinstance(value, bool):
                raise SettingError(f"{section} {key} is true or false, not {value!r}")
            self._set[section, key] = value

    def is_set(self, section: str, key: str) -> bool:
        """Tell whether something was set."""
        return (section, key) in self._set

    def get(self, section: str, key: str) -> Any:
        """Return the given value, or the default."""
        return self._set.get((section, key), KNOWN[section][key][0])

    def environ(self) -> dict[str, str]:
        """Return our settings as environment variables, for this process and its children.

        What the command line does not set is left to `vedette.toml` and the environment, and only then to the original.
        """
        defaults, elsewhere = settings.names(), settings.chosen()
        found = {}
        for section, keys in KNOWN.items():
            for key, (default, ours) in keys.items():
                if ours and (self.is_set(section, key) or (default != defaults[ours] and ours not in elsewhere)):
                    found["VEDETTE_" + ours.replace(".", "_").upper()] = str(self.get(section, key))
        return found

    def meaningless(self) -> list[str]:
        """Return the settings that differ from their default and have no effect here."""
        return [
            f"{section} {key}"
            for (section, key), value in self._set.items()
            if KNOWN[section][key][1] is None and value != KNOWN[section][key][0]
        ]


def _nearest(word: str, known: Mapping[str, Any]) -> str:
    lower = {name.lower(): name for name in known}
    return lower[difflib.get_close_matches(word.lower(), lower, 1, 0.0)[0]]
