"""A lock is held by one, and given up with the block."""

import subprocess
import sys

import pytest

from unseen.files import locked


def test_a_held_lock_is_refused_without_waiting(tmp_path):
    path = tmp_path / ".lock"
    with locked(path), pytest.raises(BlockingIOError), locked(path, wait=False):
        pass
    assert not path.exists()
    with locked(path, wait=False):
        assert path.exists()


def test_a_lock_is_waited_for(tmp_path):
    path = tmp_path / ".lock"
    program = (
        "import sys; from pathlib import Path; from unseen.files import locked\n"
        "print('waiting', flush=True)\n"
        "with locked(Path(sys.argv[1])): print(Path(sys.argv[2]).read_text())"
    )
    with locked(path):
        command = [sys.executable, "-c", program, path, tmp_path / "note"]
        other = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None
        assert other.stdout.readline() == "waiting\n"
        (tmp_path / "note").write_text("written before the lock was given up")
    assert other.communicate()[0] == "written before the lock was given up\n"
    assert other.returncode == 0


def test_a_killed_holder_gives_up_its_lock(tmp_path):
    path = tmp_path / ".lock"
    program = (
        "import sys, time; from pathlib import Path; from unseen.files import locked\n"
        "with locked(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(BlockingIOError), locked(path, wait=False):
            pass
        holder.kill()
        holder.wait()
    with locked(path, wait=False):
        pass
