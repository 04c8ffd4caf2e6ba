"""Shares of keys over real sockets while one floods: tools/fair_shares, short and so less exact."""
import os
import subprocess
import sys

from harness import PROGRAM

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

if __name__ == "__main__":
    sys.exit(subprocess.run([os.path.join(ROOT, "tools/fair_shares"), PROGRAM, "--seconds", "8",
                             "--rate", "100", "--flood", "3", "--floods", "5", "--within", "10",
                             "--tries", "3"], timeout=240).returncode)
