"""Other people's names for what vedette does: translation only. Nothing imports this."""
