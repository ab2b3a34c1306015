"""A guided tour with scripted agents: no model, no key, under a minute."""
