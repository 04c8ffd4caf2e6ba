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

# SHAPE or FLAG...: a server with these parts, in $server and $address.
serve() {
  address=unix:$place/$RANDOM.sock
  local words=() shape
  for shape in "$@"; do
    case $shape in gpu | LANE*) words+=(--shape "$shape") ;; *) words+=("$shape") ;; esac
  done
  partita remote serve --backend cuda --listen "$address" --warm 2 "${words[@]}" >"$place/log" 2>&1 &
  server=$!
  for _ in $(seq 100); do grep -q . "$place/log" && break; sleep 0.05; done
  sleep 1.5
}
stop() { kill "$server"; wait "$server" 2>/dev/null; }

# SHAPE KIND: a tenant; native without a shape.
one() {
  if [ "$1" = native ]; then LD_LIBRARY_PATH=/usr/local/cuda/lib64 "$tenant" "$2" "$seconds" 1
  else partita remote run --server "$address" --profile "$1" -- "$tenant" "$2" "$seconds" 1; fi
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
# The last: models of many kernels, measured on lanes of some sizes, planned, and run by the plan.
serve gpu gpu
for kind in narrow wide; do alone "alone, process" gpu $kind; done
pair "a process each" gpu narrow gpu wide
stop
mkdir -p "$place/kernels"
for kind in narrow wide; do
  for units in 32 64 96; do
    serve --kernel-times "$place/kernels/$kind.csv" LANE-$units
    one LANE-$units $kind >/dev/null 2>&1
    sleep 0.3
    stop
  done
  serve --kernel-times "$place/kernels/$kind.csv" LANE
  one LANE $kind >/dev/null 2>&1
  sleep 0.3
  stop

done
wc -l "$place"/kernels/*.csv
for budget in 0 6 14; do
  partita kernels plan --workers narrow,wide --kernel-profiles "$place/kernels" --topology H100 \
    --configs 32,64,96,132 --switches $budget --format json -o "$place/plan-$budget.json" &&
    grep -o '"units": \[[0-9,]*\]}' "$place/plan-$budget.json"
  serve --kernel-plan "$place/plan-$budget.json" --kernel-profiles "$place/kernels"
  pair "plan, $budget switches" narrow narrow wide wide
  stop
done
cp -r "$place/kernels" "$place"/plan-*.json "${OUT:-/tmp}" 2>/dev/null
serve LANE LANE
pair "one process, no masks" LANE narrow LANE wide
stop
serve LANE-56 LANE-64
pair "lanes of 56 and 64" LANE-56 narrow LANE-64 wide
stop
serve LANE LANE
for kind in null launches short; do alone "alone, lane of all" LANE $kind; done
for other in long reading; do pair "one process, no masks" LANE short LANE $other; done
stop
serve LANE-32 LANE-88
for kind in null launches short; do alone "alone, lane of 32" LANE-32 $kind; done
for kind in long reading; do alone "alone, lane of 88" LANE-88 $kind; done
for other in long reading; do pair "lanes of 32 and 88" LANE-32 short LANE-88 $other; done
stop
cat "$place/log"
