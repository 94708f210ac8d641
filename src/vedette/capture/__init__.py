"""What a run is made of, taken down by a program of its own while the run goes on: code, git, packages, machine."""

from vedette.lean_start import import_msgspec

import_msgspec()  # before any module of the room does
