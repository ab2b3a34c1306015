"""interlock runs development processes with coding agents as a program: agents do the work, code decides."""
