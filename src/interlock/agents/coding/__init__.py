"""The coding agents that people have, behind the one face of a runner.

`dialect` says what differs between them, one module each; `headless` and `acp` are the two ways of speaking to them;
`events`, `trouble`, `accounts` and `settling` are what they have in common.
"""
