"""What a run is made of, taken down by a program of its own while the run goes on: code, git, packages, machine."""
