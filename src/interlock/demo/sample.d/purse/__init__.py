"""Keeps expenses in a text file."""
