"""Run the `unseen` command with `python -m unseen`."""

from unseen.cli import app

if __name__ == "__main__":
    app(prog_name="unseen")
