"""The command line: arguments in, exit codes and output out. It renders a `View` and calls `interlock.app`."""
