"""The agent: PID 1 of every sandbox. Standard library only, Python 3.9 and newer."""

PROTOCOL = 1
