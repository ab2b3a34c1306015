"""Layers: where agents and commands work, confined by the kernel or in a private copy, so that nothing else changes."""
