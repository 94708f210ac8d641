"""`vedette top`: all runs and hosts on one screen of the terminal, drawn by textual."""
