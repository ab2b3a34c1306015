"""The processes: each a folder that reads like the document it comes from."""
