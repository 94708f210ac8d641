"""What a run is made of, recorded by a program of its own while the run goes on (decisions/014).

- `__main__`: the program, which `client/capturing.py` starts
- `tree`: which files are the code of a run
- `package`: these files as blobs, with a manifest
- `cleaning`: files and diffs without the secrets in them
- `git`: what git knows of a working tree
- `packages`: the packages that the run's Python can import
- `environment`: the environment, by an allow-list
- `machine`: the machine: system, processor, memory, GPUs
"""

from vedette.lean_start import import_msgspec

import_msgspec()  # before any module of this package imports it
