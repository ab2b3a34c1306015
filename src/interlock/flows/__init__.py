"""Playbooks in YAML, on the same verbs: `format` reads, `checking` proves tables total, `playing` plays them."""
