"""Max-margin solvers: they know nothing of estimators, label names or clusters."""
