"""The page: boards, runs and gates for browsers. It renders `View`, and acts by the command line."""
