"""`Progress`, as the classifier imports it."""

from vedette import Progress

__all__ = ["Progress"]
