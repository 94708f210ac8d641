"""What submits: a command as a run, on this machine; what it prints is passed on as it is, and taken down."""
