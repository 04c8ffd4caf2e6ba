"""Canaries under load: tools/canary_campaign, as short as it can be."""
import os
import subprocess
import sys

from harness import PROGRAM

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

if __name__ == "__main__":
    sys.exit(subprocess.run([os.path.join(ROOT, "tools/canary_campaign"), PROGRAM, "--percent",
                             "10", "--seconds", "14"], timeout=300).returncode)
