"""Playbooks of one's own: where they are (`library`), which bytes they are (`bundle`), who trusts them (`trust`)."""
