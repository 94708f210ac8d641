"""The web view: an HTTP API over a home, and the page that shows it."""
