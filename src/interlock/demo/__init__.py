"""What interlock does, shown in a folder of its own: no key, no model, no network."""
