"""The paper's experiments: `unseen reproduce`."""
