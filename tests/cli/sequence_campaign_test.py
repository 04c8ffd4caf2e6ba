"""Sequences while workers are killed and moved: tools/sequence_campaign, small."""
import os
import subprocess
import sys

from harness import PROGRAM

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def campaign(program):
    return subprocess.run([os.path.join(ROOT, "tools/sequence_campaign"), program, "--sequences",
                           "60", "--workers", "2", "--seconds", "8", "--every", "1", "--think",
                           "0.1"], capture_output=True, text=True, timeout=120)


if __name__ == "__main__":
    done = campaign(PROGRAM)
    print(done.stdout, done.stderr)
    numbers = dict(line.strip().rsplit("  ", 1) for line in done.stdout.splitlines())
    assert done.returncode == 0, done.returncode
    assert int(numbers["workers killed"]) >= 1 and int(numbers["workers moved"]) >= 1
    assert int(numbers["moved (of the gateway)"]) > 0 and int(numbers["lost, and told so"]) > 0
    sys.exit(0)
