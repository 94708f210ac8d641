"""What heflwr calls its monitors: each in a process of its own, or in a thread."""
