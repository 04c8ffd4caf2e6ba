#!/bin/bash
# Two tenants on one GPU of NVIDIA's: who disturbs whom, with a process each, and on lanes of one
# process. Changes no setting of the GPU.
#
#   bench/gpu/tenants.sh TENANT [SECONDS]     TENANT: bench/gpu/tenant.cu, compiled; partita in PATH
set -u
tenant=$(realpath "$1") seconds=${2:-2}
place=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$place"' EXIT
export PARTITA_STATE_DIR=$place

# MODE SHAPE...: a server with these parts, in $server and $address; native: none.
serve() {
  address=unix:$place/$RANDOM.sock
  local shapes=()
  for shape in "$@"; do shapes+=(--shape "$shape"); done
  partita remote serve --backend cuda --listen "$address" --warm $# "${shapes[@]}" >"$place/log" 2>&1 &
  server=$!
  for _ in $(seq 100); do grep -q . "$place/log" && break; sleep 0.05; done
  sleep 1.5
}
stop() { kill "$server"; wait "$server" 2>/dev/null; }

# SHAPE KIND: a tenant; native without a shape.
one() {
  if [ "$1" = native ]; then LD_LIBRARY_PATH=/usr/local/cuda/lib64 "$tenant" "$2" "$seconds" 1
  else partita remote run --server "$address" --shape "$1" -- "$tenant" "$2" "$seconds" 1; fi
}
pair() {  # NAME SHAPE KIND SHAPE KIND
  one "$2" "$3" >"$place/a" 2>&1 & local a=$!
  one "$4" "$5" >"$place/b" 2>&1 & local b=$!
  wait $a $b
  printf '%-22s %s\n%-22s %s\n' "$1" "$(cat "$place/a")" "" "$(cat "$place/b")"
}
alone() { printf '%-22s %s\n' "$1" "$(one "$2" "$3" 2>&1)"; }

for kind in null launches short long reading; do alone "alone, native" native $kind; done
serve gpu gpu
for kind in null launches short; do alone "alone, process" gpu $kind; done
for other in long reading; do
  pair "native" native short native $other
  pair "a process each" gpu short gpu $other
done
stop
serve LANE LANE
for kind in null launches short; do alone "alone, lane of all" LANE $kind; done
for other in long reading; do pair "one process, no masks" LANE short LANE $other; done
stop
serve LANE-32 LANE-96
for kind in null launches short; do alone "alone, lane of 32" LANE-32 $kind; done
for kind in long reading; do alone "alone, lane of 96" LANE-96 $kind; done
for other in long reading; do pair "lanes of 32 and 96" LANE-32 short LANE-96 $other; done
stop
cat "$place/log"
