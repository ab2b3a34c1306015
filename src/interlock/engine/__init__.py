"""The core: typed events in a journal, two folds, verbs, dispatch, evidence, people, and the two worlds."""
