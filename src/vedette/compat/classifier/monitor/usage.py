"""`Usage`, as the classifier imports it."""

from vedette import Usage

__all__ = ["Usage"]
