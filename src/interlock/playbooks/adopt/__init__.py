"""Adopting a prompt."""
