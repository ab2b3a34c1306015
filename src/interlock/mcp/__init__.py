"""`interlock mcp`: coding agents and editors start runs and look at them, by the Model Context Protocol."""
