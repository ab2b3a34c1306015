"""Files and formats: read with care, written whole or not at all, errors with file and line."""
