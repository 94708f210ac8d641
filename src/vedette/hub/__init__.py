"""What listens: reads the spools of this host, keeps the store, watches the processes, answers on a socket."""
