"""Models out of npm packages behind the gateway, against onnxruntime-node: what
tools/foreign_models fetched into build/foreign. Skipped where it is not there."""
import os
import subprocess
import sys

from harness import PROGRAM

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

if __name__ == "__main__":
    library = os.path.join(ROOT, "build/onnxruntime/libonnxruntime.so.1")
    if "PARTITA_ONNXRUNTIME" not in os.environ and not os.path.exists(library):
        sys.exit(77)
    sys.exit(subprocess.run([os.path.join(ROOT, "tools/foreign_models"), "--requests", "5"],
                            env={"PARTITA_ONNXRUNTIME": library, **os.environ,
                                 "PARTITA": PROGRAM}).returncode)
