"""A guided tour with scripted agents: the playbook `feature` on a sample project; no model, no key, a minute."""
