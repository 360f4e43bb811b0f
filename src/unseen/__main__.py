"""`python -m unseen` is the command `unseen`."""

from unseen.cli import app

if __name__ == "__main__":
    app(prog_name="unseen")
