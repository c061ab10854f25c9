"""A Python with packages from PyPI, in a virtual environment made on first use."""

import subprocess
import sys
from pathlib import Path


def python_with(packages, folder):
    """Path of the interpreter. A folder that an interrupted setup left is completed.

    Raises OSError or subprocess.CalledProcessError where that cannot be done.
    """
    folder = Path(folder).absolute()
    python = folder / "bin" / "python"
    ready = folder / "ready"
    wanted = "\n".join(packages)
    if not ready.exists() or ready.read_text() != wanted:
        print(f"setting up {' '.join(packages)} in {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        ready.write_text(wanted)
    return str(python)
