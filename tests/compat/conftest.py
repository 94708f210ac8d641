"""Real processes in a real home, as journeys have them."""

from tests.journeys.conftest import finish, lan, no_hosts, start

__all__ = ["finish", "lan", "no_hosts", "start"]
