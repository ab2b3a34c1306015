"""The person's workspace: its states as git trees, layers for agents, delivery, commits."""
