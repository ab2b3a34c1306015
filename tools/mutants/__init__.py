"""Mutation testing of the pure modules: which small changes of their code no test notices.

    python -m tools.mutants                            some mutants of each module, chosen by chance
    python -m tools.mutants --all                      all of them
    python -m tools.mutants --of contracts/answer.py   those of one module
    python -m tools.mutants --seed 7                   the ones that were chosen with this seed

Why it is our own: docs/adr/0019-mutants.md.
"""
