"""How many calls can this machine drive? A ramp against the built-in agent until a limit breaks."""
