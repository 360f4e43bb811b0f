"""Max-margin solvers, independent of estimators, label names and clusters."""
