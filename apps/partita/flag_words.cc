// Every flag of the three programs: its name, what stands behind it and what it means. A name means
// the same wherever it is. Sorted by name.
#include "flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/append.h"
#include "base/check.h"
#include "base/nearest.h"
#include "decide/gpu_costs.h"

namespace partita::cli {
namespace {

constexpr FlagWords kWords[] = {
    {"--absolute", "", "Residuals in joules instead of relative to what was measured"},
    {"--access-log", "FILE",
     "Write a line of JSON per request to this file; rotated at 64 MiB, five files are kept"},
    {"--after", "TASK",
     "Start after TASK succeeded, any:TASK (after it ended) or not_ok:TASK (after it failed)"},
    {"--after-input", "",
     "Wait for the end of standard input first (used by `set --hold` and `run`)"},
    {"--again", "",
     "Reapply the last plan, for instance after a reboot, which MIG instances do not survive; a "
     "change that was cut short is undone"},
    {"--against", "FILE",
     "With --openai: compare what is measured with what these points predict for it"},
    {"--air", "CELSIUS", "Temperature of the air around the chip (default: fitted)"},
    {"--all", "", "Also show what has ended"},
    {"--allow-origin", "ORIGIN",
     "Pages of this origin may call the HTTP door, as in https://app.example.com; '*': of all"},
    {"--alone", "", "Give every service a GPU of its own"},
    {"--ambient", "KELVIN", "Temperature of the air around the chip"},
    {"--api-server", "URL", "The API server of Kubernetes"},
    {"--approve", "CHANGE", "With --server: approve this proposed change"},
    {"--arg", "ARGUMENT",
     "An argument, in order: TYPE:VALUE, or buffer:TYPE:COUNT[:FILL] with FILL none "
     "(uninitialised), zero, ramp, a number, or @FILE of raw bytes"},
    {"--array", "N", "Submit this many copies of the task"},
    {"--arrivals", "poisson|uniform|gamma:CV|FILE",
     "How requests arrive (default: as the services file says, else poisson): poisson, uniform "
     "(evenly spaced), gamma:CV (gaps with that coefficient of variation), a CSV with the header "
     "time_s,service, or a trace that every service plays at its rate"},
    {"--assignment", "FILE", "The assignment to follow, instead of the state directory's"},
    {"--at", "HH:MM",
     "Plan for this time of day, by the `rates` of the services (without it: rate_rps, or the "
     "highest rate)"},
    {"--at-most", "", "Load 1 is what a whole GPU carries at its highest clock, not rate_rps"},
    {"--atom", "N",
     "Units that are always masked together; default: the GPU's, 8 on H100 and H200 (2 without "
     "co-scheduling), 2 on A100, 1 on AMD"},
    {"--back", "", "The node may carry services again"},
    {"--backend", "cpu|cuda", "What runs kernels: the CPU cores of this machine, or CUDA's driver"},
    {"--batch", "N", "Batch size (of a worker the largest; 0: one request at a time)"},
    {"--batch-axis", "INPUT=AXIS",
     "Where the rows of an input lie, as in state=1, or sr=none for one that all rows share"},
    {"--batch-start", "SECONDS",
     "When a BatchSchedule began, on the log's clock; else at its first sample"},
    {"--batch-us", "N", "With --null: microseconds that a batch takes"},
    {"--batches", "LIST", "Batch sizes"},
    {"--batching", "",
     "When a batch starts. paced: a batch starts when its turn comes; full: a batch waits until it "
     "is full, which planning by execution latency assumes"},
    {"--beside", "",
     "Also measure with neighbours on the other units, some that compute and some that read "
     "memory"},
    {"--bin", "DURATION", "Width of the bins that smooth the trace"},
    {"--block", "EXTENT", "Threads of a block: x, x,y or x,y,z"},
    {"--blocks", "EXTENT", "Blocks: x, x,y or x,y,z"},
    {"--blocks-file", "OUT.flp", "Write the blocks as HotSpot's .flp"},
    {"--board-idle", "W", "Power of the board at rest"},
    {"--buckets", "SIZES",
     "Pad open sizes with zeros up to the next of these, as in 16,32,64, so that requests of "
     "different sizes run together; learn, or learn:N for N of them, learns them from what comes. "
     "For models that mask what is zero"},
    {"--budget", "N",
     "Search steps that a scheduler may spend instead of its own default; steps, not seconds, so "
     "that every machine finds the same. More never gives a worse schedule"},
    {"--busy", "FILE",
     "Kernels that already run on each unit: a JSON or YAML list of numbers, or one list per "
     "cluster (default: none)"},
    {"--ca", "FILE", "Certificates that the client's end trusts"},
    {"--cache", "SERVICE=MIB[,TIME][,shared]",
     "Keep its answers for whoever asks the same again, in place of what its services file says "
     "(0: none); '*': of models that ask for it"},
    {"--calm", "", "Simulate without failures; only the traffic changes"},
    {"--canary", "SERVICE@VERSION=PERCENT",
     "Give this version so much of the service's requests, until it proves well or is taken back"},
    {"--canary-watch", "TIME", "How long a version is on trial before it is promoted"},
    {"--cap", "W", "Highest power of one GPU, in watts"},
    {"--caps", "LIST", "Power caps, in per cent below the workload's own maximum"},
    {"--caps-of", "",
     "Unit of --caps: per cent of the rise above the surroundings, or degrees Celsius"},
    {"--carbon", "G", "Grams of CO2 per kWh"},
    {"--carbon-price", "MONEY",
     "Money per tonne of CO2, added to the price of energy where hours are compared"},
    {"--carry", "INPUT=OUTPUT",
     "The model has state: this input is fed with what this output gave in the step before"},
    {"--catalogue", "DIR",
     "Read the GPU models from the JSON files of DIR instead of the built-in catalogue"},
    {"--cdi-dir", "DIR", "Where files of the Container Device Interface go"},
    {"--cgroups", "DIR", "Where cgroups of version 2 are mounted"},
    {"--change", "N", "Only events of this change"},
    {"--change-time", "TIME",
     "With --day: how long before the rates change new instances are made, and how long after it "
     "old ones go; counts as GPU-hours"},
    {"--check", "CHECKS",
     "Further checks: memory (reads of what nobody wrote), races (between threads of a launch), "
     "barriers (that threads leave out), all; bounds, alignment, freed memory and barriers that "
     "never open are always checked"},
    {"--check-kernels", "",
     "Check kernels as `ptx run --check all` does, and end with 1 when one did something wrong "
     "(CPU servers)",
     "--check"},
    {"--checkpoint", "COMMAND",
     "Command to run before the task is ended; $PARTITA_PID is its process"},
    {"--claims", "", "Write claims of single instances on their GPUs rather than templates (dra)"},
    {"--client-certificate", "FILE", "Certificate to present to --server"},
    {"--client-key", "FILE", "Private key of --client-certificate"},
    {"--clock-cost", "J", "Energy of changing the clock once"},
    {"--clocks", "MHZ,...",
     "Clocks in MHz, ascending (of `power set` one clock, or the least and the most)"},
    {"--command", "TEMPLATE",
     "Command to run; names in braces such as {task}, {device} and {profile} are filled in from "
     "the task or segment"},
    {"--compare", "", "Also compute it by the other rules, to compare"},
    {"--components", "FILE",
     "YAML with the columns of each component, NAME: [column, ...] (default: each column is one)"},
    {"--compress", "",
     "Answer in gzip where the client takes it: JSON and text of 1 KiB to 1 MiB, never tensors in "
     "binary form"},
    {"--configs", "N,N,...",
     "Numbers of units that a kernel may have, ascending (default: a quarter, half, three quarters "
     "and all of the GPU, in whole atoms)"},
    {"--connections", "N", "Open at most this many connections"},
    {"--controller", "",
     "How the clock is chosen. table: by the rate seen last; predictive: by the highest rate of "
     "--look-back and a forecast"},
    {"--cooperative", "", "The grid may synchronise"},
    {"--copy-gbps", "GBPS", "Rate of the simulator's copies"},
    {"--count", "N", "How many: tasks to make, or looks to take before it ends"},
    {"--counter-error", "PERCENT", "Error of the counters, in per cent"},
    {"--cpu-cores", "N", "CPU cores that a task needs, or that tasks may use"},
    {"--cpus", "LIST", "The CPUs to run on, as in 0,2-3 (default: all)"},
    {"--current", "FILE",
     "What runs now: a plan, or the state of a node as `partita status` writes it (JSON). The new "
     "plan then needs the fewest GPUs, and among such plans creates the fewest instances"},
    {"--curve", "", "Also show the best result for every smaller number of switches"},
    {"--day", "",
     "Plan the day that `rates` of the services describe: a plan per period, and the fewest "
     "changes between them, during which no service falls short"},
    {"--deadline", "TIME", "Time from now by which it must be done"},
    {"--deadlines", "FACTOR",
     "Give every task a deadline: this many times its shortest time, after its release"},
    {"--decode-ms", "MS",
     "With --kernel-plan phases: a step of decode takes at most so long; decode has the fewest "
     "units for that, prefill the rest"},
    {"--delay", "DURATION", "Time until a decision takes effect"},
    {"--deviation", "SHARE", "How far coefficients may be from the prior, as a share of it"},
    {"--device", "DEVICE", "Which GPU: its number from 0, or NVIDIA's UUID"},
    {"--devices", "N",
     "How many devices a program sees: they share the cores and the memory of its session"},
    {"--dir", "DIR", "Folder for session, pictures and truth.flp"},
    {"--directory", "DIR", "Working directory"},
    {"--dispatch", "",
     "The server that the plan is for (default: the plan's own, else pooled). pooled: one queue "
     "per service over all its instances; paced: one per instance, batches at a pace; "
     "shared-queue: one per instance, as dynamic batching of an ordinary server; per-process: one "
     "per process"},
    {"--draft", "GPU_INDEX", "Print a catalogue entry for this GPU, to be completed"},
    {"--drain-timeout", "SECONDS", "Seconds to wait for processes to leave an instance"},
    {"--driver", "",
     "The GPUs. nvml: of this machine, through NVIDIA's driver; amd: through AMD SMI; sim: a "
     "simulated machine"},
    {"--dry-run", "", "Only show what would be done"},
    {"--dump", "BUFFER",
     "Print a buffer afterwards: its number from 0, and how many elements (0:16)"},
    {"--duration", "TIME", "How long it lasts: 60s, 5m, 2h, 500ms, or seconds"},
    {"--end-expired", "", "First end leases that have expired and are not used"},
    {"--ended", "FILE", "File in which slurmctld (as SlurmUser) records the runs that have ended"},
    {"--engine", "SERVICE=URL",
     "An engine of this language model: a server of OpenAI's API; may be said several times"},
    {"--epoch-ms", "MS", "Time between two settings of the clock"},
    {"--etc", "DIR", "Slurm's folder of configuration"},
    {"--exact", "", "Only at --start, nowhere else"},
    {"--example", "",
     "Instead of FILE. strassen: real matrices, Winograd's variant of Strassen's multiplication, "
     "checked against Eigen's product"},
    {"--explain", "", "Explain the result (text)"},
    {"--fault-exit", "N",
     "Exit status when a kernel did something wrong, or a launch failed and the program did not "
     "ask for its error; 0: the program's own"},
    {"--file", "FILE", "A history file, instead of history.db in the state directory"},
    {"--files", "DIR", "Write the files for Slurm into this folder, to look at"},
    {"--fill", "BUFFER=FILE",
     "Fill this buffer with the bytes of the file, whatever the graph says; may be repeated"},
    {"--first", "", "Run with real-time priority: less delay on a busy machine"},
    {"--first-port", "PORT", "First port for {port}; the next ones count up"},
    {"--fleet", "FILE|ENDPOINTS",
     "A fleet. FILE: of several GPU models, a YAML or JSON list under `gpus` of gpu, profiles, and "
     "optional count and price; minimises the summed price. ENDPOINTS: of many nodes, URLs of the "
     "etcd that they agree in, with commas (else the `fleet` of the settings)"},
    {"--fleet-name", "NAME", "Of several fleets in one etcd, this one"},
    {"--flexible", "", "It may wait for cheap or clean hours, as long as it meets its deadline"},
    {"--flp", "FILE", "Floorplan: HotSpot's .flp, in metres"},
    {"--folder", "DIR", "Folder for models, profiles, plans and logs"},
    {"--follow", "", "Also print what happens from now on, one line each"},
    {"--for", "OWNER",
     "Who holds it, as in slurm:42; OWNER/2 is a second one of the same owner. Asking again gives "
     "the same instance"},
    {"--for-user", "NAME", "Whose task it is (default: who asks)"},
    {"--form", "FORM",
     "PATH is what another profiler wrote: perf-analyzer (perf_analyzer -f), model-analyzer "
     "(metrics-model-inference.csv); of language models, a file or a folder of them: vllm (vllm "
     "bench serve --save-result), sglang (sglang.bench_serving), aiperf and genai-perf "
     "(profile_export_*.json or .csv), trtllm-bench (--report_json)"},
    {"--forward", "URL", "Send batches to this server of the Open Inference Protocol v2 instead"},
    {"--frames", "N", "Number of frames averaged into a picture"},
    {"--from", "", "Format of the file (default: recognised)"},
    {"--gating", "",
     "What happens to units that no service has, under policy exact. none: they stay clocked, as "
     "on every GPU that is sold; group: whole clusters are gated; unit: each one. The other "
     "policies bring theirs"},
    {"--give-back", "GPU", "With --server: use a GPU again that was taken out, by UUID or index"},
    {"--governor", "",
     "How the clock is governed. step: down above the cap, up below; pid; predictive: the highest "
     "clock that the thermal model allows; all"},
    {"--gpcs", "N", "Size of the instance, in compute slices"},
    {"--gpu", "GPU",
     "The GPU model (`partita gpus` lists the names; A30 is enough for A30-24GB); for batches also "
     "several with their numbers: A100-80GB:2,A30-24GB:4"},
    {"--gpu-costs", "FILE",
     "Watts and prices by GPU model, for --objective cost or energy: a CSV of gpu, idle_w, busy_w, "
     "off_w, price_per_hour, source (default: what comes with the program)"},
    {"--gpu-index", "LIST",
     "Index of a GPU of this node; where several may be named, with commas between, or all",
     "--gpu"},
    {"--gpu-memory", "GIB", "GPU memory that the task needs"},
    {"--gpus", "N", "Number of GPUs"},
    {"--gpus-per-node", "N", "Number of GPUs of a node; the list is split in this order"},
    {"--grace", "TIME", "Time between the request to end and the kill"},
    {"--grid", "ROWS,COLS", "Cells of the die, any numbers (default: the configuration's, 64,64)"},
    {"--grid-steady-file", "FILE", "Also write every cell in HotSpot's form"},
    {"--grpc", "HOST:PORT", "Also listen for gRPC on this address"},
    {"--guard", "N",
     "Standard deviations kept above the rates seen; 0: none, and no rescue when requests pile up"},
    {"--held", "", "Submit on hold"},
    {"--histogram", "", "Also show the time spent at every clock"},
    {"--hold", "TIME",
     "Keep the settings for this long, or until a signal, then put everything back, even if this "
     "program is killed"},
    {"--hold-models", "N",
     "--model is a folder of models that share this worker; so many are loaded at once, the others "
     "when they are asked for"},
    {"--hooks", "FILE",
     "Settings of the agent (docs/agent.md) whose hooks run before and after the change: programs "
     "that stop and start what keeps GPUs busy"},
    {"--host-queue", "",
     "Host a queue of tasks (`partita queue`): its instances are leases of the agent"},
    {"--hotspot-compat", "",
     "Compute as HotSpot 7.0 does, with its defects, to compare with its results"},
    {"--http", "HOST:PORT",
     "HTTP address: to listen on, port 0 being any free one, or for the balancer to listen on"},
    {"--hysteresis", "K", "Kelvin below the cap at which step goes up, and at which pid aims"},
    {"--hysteresis-polls", "N", "Polls in a row that must agree before a lower setting is chosen"},
    {"--idle", "",
     "Who pays for idle power: instances by their compute slices, all tenants equally, or nobody"},
    {"--idle-clocked", "PERCENT", "Per cent of the idle power that falls with clock and voltage"},
    {"--idle-limit", "TIME", "End sessions that have been idle for this long"},
    {"--idle-w", "W",
     "Watts of a board without work (default: the model's, or what the log shows)"},
    {"--idle-watts", "WATTS", "Idle watts, spread over the chip's area, on top of --power"},
    {"--image", "IMAGE", "Container image that serves (kubernetes)"},
    {"--images", "DIR", "Keep programs' images in this folder between sessions"},
    {"--in-flight", "LIST", "Requests in flight while an engine is measured, as in 1,4,16"},
    {"--input", "TENSOR", "With --null: an input tensor, NAME:TYPE:SIZES"},
    {"--input-shape", "INPUT=SIZES",
     "Sizes of an input that the model leaves open, as in tokens=128"},
    {"--insecure", "", "Accept any TLS certificate"},
    {"--instance", "PROFILE@START",
     "Run on the cores of this instance of CPU units, {profile}@{start} of `partita workers`"},
    {"--instances", "LIST",
     "Instance sizes: in units (cores), as in 1,2,4 or 1..4, `1..` doubles; with --gpu-index in "
     "compute slices, as in 1g,2g (default: 1.., with --gpu-index all)"},
    {"--interval", "TIME", "Time between two looks, 10ms or more"},
    {"--into-etc", "", "Write the files for Slurm into --etc, where Slurm reads them", "--apply"},
    {"--item-us", "N", "With --null: microseconds that every item of a batch adds"},
    {"--jobs", "DIR", "Folder of job files on a node; %n is its name"},
    {"--keep", "", "Do not destroy the instances at the end"},
    {"--keep-after", "TIME", "Reserve a place for a job that has waited this long"},
    {"--keep-foreign", "", "Leave instances that Partita did not make, unless they are in the way"},
    {"--kernel", "NAME", "Name of the kernel"},
    {"--kernel-plan", "PLAN|POLICY",
     "Run the kernels of sessions on the units that this plan of `kernels plan` gives them, or (on "
     "the CPU) this policy of `kernels simulate`; sessions ask for its workers by name. `phases`: "
     "prefill and decode of language models, with shares that follow load",
     "--lanes"},
    {"--kernel-profiles", "DIR",
     "Directory with NAME.csv (kernel,units,time_us and optional index), or REEF's NAME.json and "
     "NAME.profile.json, per worker",
     "--profiles"},
    {"--kernel-spread", "SHARE", "Variation of kernel times, uniform, as a share"},
    {"--kernel-times", "FILE",
     "Append the kernels of each session's request and their times to FILE, as `kernels plan` "
     "reads them"},
    {"--kind", "KINDS", "Only what is of these kinds; with commas, where there may be several"},
    {"--kv-probe", "",
     "With --openai: find how many tokens of KV cache fit, by its metrics or by requests"},
    {"--kv-time", "TIME", "Time limit of the KV probe"},
    {"--kv-tokens", "N", "Tokens that the cache of an engine holds"},
    {"--label", "LABEL", "Name of the configuration (mig-parted), of the plan (kubernetes)"},
    {"--lane-driver", "",
     "What lanes are made on. green_ctx: an NVIDIA GPU; hip_mask: an AMD GPU; cpu_mask: threads of "
     "this machine; sim: virtual time; auto: a GPU if there is one, else cpu_mask"},
    {"--lanes", "N", "Number of different masks to use at the same time"},
    {"--latency-bound", "TIME", "Latency bound, such as 15ms"},
    {"--lateness", "MS",
     "How late the server's timers ring on average, in ms (exponentially distributed)"},
    {"--layer", "N", "Layer to draw; 0 is next to the board (default: the first that dissipates)"},
    {"--layout", "SEED", "Seed of the layout of the chip's SMs; 0: the standard one"},
    {"--layouts", "", "The layouts of the model to which no further instance can be added"},
    {"--lcf", "FILE", "Layers of a stacked chip: HotSpot's .lcf, in the place of --flp"},
    {"--leave-out", "concurrency|shape",
     "Errors of points that the law has not seen: of a whole concurrency, or of a whole shape "
     "(tokens in and out), at a time"},
    {"--levels", "N", "Levels of the example's recursion: 7 products of quarters each"},
    {"--library", "FILE", "The vendor's library, where it is not the installed one"},
    {"--limit", "CELSIUS", "Where the board throttles"},
    {"--link", "PATH", "The gateway's socket"},
    {"--list", "", "Show which instances are lent, and to whom"},
    {"--listen", "ADDRESS", "Address to listen on: HOST:PORT, unix:PATH or tcp:HOST:PORT"},
    {"--load", "FACTOR", "Play all rates times this; the plan stays as it is"},
    {"--load-us", "N", "With --null and --hold-models: microseconds to load a model"},
    {"--log-dir", "DIR",
     "Folder for the output of tasks or workers (default: one in the state directory)"},
    {"--log-limit", "MIB", "Rotate a log after this many MiB"},
    {"--logs", "", "Print the task's output"},
    {"--longest-gap", "TIME",
     "Longest time between two samples without counting as a gap (default: 10 times the usual "
     "one)"},
    {"--look-back", "TIME", "How far back the predictive controller looks (default: 10s)"},
    {"--loss", "", "Weight of outliers"},
    {"--machine", "FILE",
     "Description of the simulated machine (default: $PARTITA_SIM, else one A100-80GB in memory)"},
    {"--materials", "FILE", "HotSpot's file of materials"},
    {"--max-gpus", "N", "Refuse (exit 1) a plan with more GPUs than this"},
    {"--max-moves", "N",
     "Create at most this many instances, on more GPUs if necessary; refuse (exit 1) when "
     "impossible"},
    {"--max-processes", "N",
     "Maximum number of MPS processes on one instance (default: 3 to plan with, any to check "
     "with)"},
    {"--measured", "COLUMN", "The column that was measured, its name ending in _j or _w"},
    {"--measured-on", "GPU",
     "The GPU model that the measurements in PATH come from; --gpu by default"},
    {"--memory", "MIB", "Memory limit in MiB"},
    {"--memory-part", "PERCENT",
     "Share of the time that does not depend on the clock, in per cent (with --flp)"},
    {"--memory-share", "SHARE", "Share of a kernel's time that the clock does not change"},
    {"--method", "", "The method"},
    {"--metrics", "FILE", "Write metrics to this file, for Prometheus"},
    {"--mig-minors", "FILE",
     "A copy of the node's /proc/driver/nvidia-caps/mig-minors: names the device files of every "
     "instance (slurm)"},
    {"--min-available", "SHARE", "Share of a service's capacity to keep up where there is room"},
    {"--min-requests", "N", "Send at least this many requests; --duration is the least time"},
    {"--mode", "",
     "How changes come about: automatic, approve (a person says yes) or observe (never)"},
    {"--model", "MODEL", "The model: its name in the profile, or its file (ONNX, EnergyModel)"},
    {"--model-version", "VERSION",
     "Of --model FOLDER: which VERSION/model.onnx in it; else the highest number"},
    {"--models", "NAMES", "The models, separated by commas"},
    {"--most", "N", "Show at most this many (frames: 0 is all)"},
    {"--most-tasks", "USER=N",
     "Most unfinished tasks that a user may have in the queue; *=N: of everybody else (default "
     "100,000)"},
    {"--mps", "", "Run an MPS daemon on each device whose segment has several processes"},
    {"--mps-oversubscribe", "", "Allow percentages that add up to more than 100"},
    {"--mps-shares", "[SERVICE=]PERCENT[:MIB],...",
     "How the processes of a segment share their device: equal, none (no limits), or a list with a "
     "percentage of the threads and the MiB of each process, separated by commas; for one service "
     "or all; may be repeated. Segments without a fitting list share equally"},
    {"--name", "NAME",
     "Name of the model or of the server's certificate, where it is not that of the file or host"},
    {"--namespace", "NAME", "Kubernetes namespace (dra, kubernetes)"},
    {"--new-traces", "", "Start a trace for requests that come without one (traceparent)"},
    {"--no-etching", "", "Simulate a chip without text on it"},
    {"--no-gpu", "", "Do not use the GPU, even where one could be used"},
    {"--no-metrics", "", "No /metrics"},
    {"--no-reset", "",
     "Refuse a change that turns MIG on where that takes a reset of the GPU (A100, A30); without "
     "this flag an idle GPU is reset, a busy one never"},
    {"--no-sandbox", "", "Do not sandbox session processes (for debugging)"},
    {"--no-shed", "", "Let requests in that are predicted to miss their objective"},
    {"--node", "FILE",
     "State of the node as `partita status` writes it (of a simulation: its machine)"},
    {"--node-budget", "N",
     "Limit on the search nodes of a planner; when it is reached the plan states the gap to the "
     "lower bound"},
    {"--node-name", "NAME", "Name of the node in Slurm or Kubernetes"},
    {"--nodes", "NODES",
     "Nodes as Slurm names them, g[0-7], for a site file that is not there yet"},
    {"--noise-mk", "MK", "Noise of one frame, in millikelvin"},
    {"--null", "", "Without a model: inputs are copied to outputs, to measure the hop alone"},
    {"--objective", "",
     "What the plan has least of. gpus: GPUs; cost: their price per hour; energy: expected watts "
     "at the services' rates, GPUs that are not used being off (default: gpus; price where a fleet "
     "file gives it)"},
    {"--oidc", "FILE",
     "OpenID provider whose tokens are taken: issuer, audience, keys (jwks), what its roles may"},
    {"--once", "", "Do it once, then end"},
    {"--online", "",
     "Learn of a task only at its release_s, and plan while tasks run, as `partita queue` does"},
    {"--open-bytes", "N", "Bytes that a tensor with open sizes may have in one item"},
    {"--openai", "URL",
     "Of a worker: the server of --forward speaks OpenAI's protocol, answers may be streams. Else "
     "the server of language models, which speaks it"},
    {"--otlp", "URL",
     "Collector of OpenTelemetry, as http://127.0.0.1:4318: a span of each request of a sampled "
     "trace goes there (OTLP over HTTP, JSON)"},
    {"--output-tensor", "TENSOR", "With --null: an output tensor, NAME:TYPE:SIZES"},
    {"--overlap", "",
     "What slows a worker down. others: the mean units of the others, so that two workers on all "
     "units take twice as long; literal: its own as well, as ECLIP prints it"},
    {"--overlap-limit", "N", "How many of the units may already run other kernels"},
    {"--pace", "SECONDS",
     "Seconds that a simulated day takes, to look on with --listen (0: as fast as it goes)"},
    {"--package", "HOTSPOT",
     "Package and environment: HotSpot's .config (default: HotSpot's defaults)", "--config"},
    {"--pages", "DIR", "Write it to this folder, and one page per command"},
    {"--part", "", "Which lines: of gres.conf, of slurm.conf, or of a dynamic node (slurm)"},
    {"--patience", "DURATION", "How long to retry a reconfiguration that the driver refuses"},
    {"--peer-token", "FILE",
     "Hand requests over to gateways of other nodes of the fleet, and take theirs: a file with the "
     "secret that all of them have"},
    {"--pictures", "DIR", "Write pictures before and after, per method and component, here"},
    {"--pixel-um", "UM", "Size of the camera's pixels on the chip, in micrometres"},
    {"--plan", "PLAN",
     "The plan in force: a ServingPlan, a BatchSchedule, or the Assignment of a state directory"},
    {"--planner", "PLANNER", "The planner; `partita planners` lists them"},
    {"--planners", "PLANNERS",
     "The planners, separated by commas (without: exact, and ParvaGPU's where they plan such "
     "services); each may be given an SLO rule: exact,parvagpu@execution:0.45; without one it is "
     "--slo-rule, else the planner's own"},
    {"--plugin-dir", "DIR", "The kubelet's folder for this plugin: its socket goes there"},
    {"--point-time", "TIME", "Longest time for one point"},
    {"--policies", "NAMES", "The policies to compare, separated by commas"},
    {"--policy", "", "The policy"},
    {"--poll", "TIME", "Time between two decisions, 50ms or more"},
    {"--port", "PORT", "Port to serve on; 0: any free one"},
    {"--power", "FILE", "Watts of every block: HotSpot's .ptrace, a line per sample"},
    {"--power-error", "PERCENT", "Error of the powers that predictive assumes, in per cent"},
    {"--power-factor", "FACTOR", "Factor for the programs' power, 1.6 to 2.4 W"},
    {"--power-limit", "W", "Power limit of the board"},
    {"--power-table", "FILE",
     "Watts by model and slice, for --objective energy: a table as `partita power table` writes "
     "it, of the GPU's SMs"},
    {"--powercap", "DIR", "Folder of the RAPL counters"},
    {"--precision", "PERCENT",
     "Stop measuring a point once its throughput is known this well, in per cent"},
    {"--preemptible", "", "May be ended for a task of higher priority"},
    {"--price", "MONEY", "Money per kWh"},
    {"--prices", "FILE",
     "Prices and CO2 by the hour: a CSV with hour (2026-11-27T13:00Z, or every day 13:00+01:00), "
     "price_per_kwh and co2_g_per_kwh, one of these or both"},
    {"--prior", "MODEL",
     "Coefficients expected beforehand: a model, or one number for all components"},
    {"--priority", "N", "Higher runs sooner: each step counts double"},
    {"--probe", "TEMPLATE|URL",
     "Health check of a worker: a command that ends with status 0, or "
     "http://127.0.0.1:{port}/PATH, with the placeholders of --command; a worker that fails is "
     "replaced"},
    {"--probe-failures", "N", "Replace a worker after this many failed probes in a row"},
    {"--probe-period", "DURATION", "Time between two probes of a worker"},
    {"--probe-timeout", "DURATION", "Longest time for one probe"},
    {"--processes", "N",
     "Number of MPS processes that share an instance; of `profile measure` several, separated by "
     "commas"},
    {"--profile", "SHAPE",
     "Shape to ask for: 2g.20gb; of a remote session also gpu or CPU-4 (default there: what is "
     "free)"},
    {"--profiles", "PATH",
     "Profiles of the models: a native CSV, a directory of ParvaGPU CSVs (one per model), or "
     "performance laws (JSON)"},
    {"--program", "CMD", "The program to measure, with its arguments"},
    {"--promise", "",
     "What keeping an SLO means. queueing: waiting counts, arrivals are Poisson; execution: the "
     "table's p95 alone, as in CoFRIS"},
    {"--queue", "N", "Number of clients that may wait for a free part"},
    {"--queue-limit", "N", "Largest number of waiting rows per service; more requests are refused"},
    {"--quota", "USER=N",
     "Most instances that a user's tasks may have at once; *=N: of everybody else"},
    {"--ram", "GIB", "Memory of the node that a task needs, or that tasks may use"},
    {"--rates", "LIST",
     "With --openai: open loops too, Poisson arrivals at these requests per second; auto: at 30, "
     "60 and 80 % of what was carried"},
    {"--ready-timeout", "SECONDS",
     "Seconds to wait for a started segment before the one that it replaces is stopped; 0: do not "
     "wait (with a gateway: 300)"},
    {"--reconfiguration-spread", "SHARE",
     "Standard deviation of the time of creates and destroys, as a share"},
    {"--reconfigurer", "node|gpu",
     "Who creates and destroys instances, one at a time: the driver of each node, or each GPU by "
     "itself"},
    {"--record", "FILE", "Record into this file"},
    {"--record-kernels", "FILE",
     "Write the kernels that the program launched, by requests, into this CSV"},
    {"--registry-dir", "DIR", "Where the kubelet looks for sockets of plugins"},
    {"--rehearse", "", "Rehearse on a copy of the node in memory, in simulated time", "--simulate"},
    {"--reject", "CHANGE", "With --server: reject this proposed change"},
    {"--releases", "SECONDS", "Release the tasks one by one over this many seconds"},
    {"--reload", "COMMAND", "Shell command to run when the file has changed"},
    {"--repeats", "N", "Runs of each policy, in turns"},
    {"--replace", "", "Replace files that differ", "--force"},
    {"--replan", "N",
     "Number of planned tasks that have not begun to plan again with what arrives (method best)"},
    {"--replan-now", "", "With --server: look and plan now"},
    {"--replay", "FILE", "Show what --record wrote instead of GPUs; with --watch at its own pace"},
    {"--request-counts", "FILE",
     "Completed requests: a CSV service,requests[,from_s,to_s], or the gateway's /metrics saved "
     "before and after (two files)"},
    {"--requests", "N", "Requests per worker and run"},
    {"--require", "SHARE",
     "Exit 1 when a service meets its SLO for less than this share of its requests"},
    {"--require-within", "KELVIN", "Exit 1 when some value is off by more"},
    {"--restore", "", "Put power limits and clocks back to what they were before"},
    {"--resume", "",
     "Continue the last run although it has ended: retry the tasks that did not finish. (A run "
     "that was interrupted always continues)"},
    {"--retries", "N", "How often to retry a task that failed"},
    {"--return", "", "Give back what the owner holds"},
    {"--return-after", "TIME", "Return an instance after nobody has waited for it this long"},
    {"--rollback", "", "Undo the last apply"},
    {"--rom-tolerance", "K/W",
     "Error that is allowed, in kelvin per watt; smaller is more accurate and slower (rom)"},
    {"--rounds", "N", "Repetitions of each measurement"},
    {"--route", "tokens|round-robin|least-requests",
     "Which engine of a language model gets a request: where it costs the least TTFT and TPOT; in "
     "turn; fewest requests in flight"},
    {"--row-s", "SECONDS", "Seconds that a row of --power lasts"},
    {"--rows", "KEY", "The list to print as CSV (default: the first one)"},
    {"--rule", "",
     "How power above idle is split: by a model, by compute slices x activity, by slices, by "
     "GR_ENGINE_ACTIVE, or equally; auto: by a model if there is one, else by activity"},
    {"--run-as", "USER", "User that session processes run as (needs root)"},
    {"--runs", "N", "How many runs"},
    {"--runtime", "SOCKET",
     "HAProxy's stats socket: weights alone are set there, without a reload"},
    {"--runtime-dir", "DIR",
     "Where MPS daemons have their sockets (default: $XDG_RUNTIME_DIR/partita, /run/partita for "
     "root)"},
    {"--sample-interval", "SECONDS",
     "Seconds per line of the power trace (default: the configuration's sampling_intvl)"},
    {"--save", "BUFFER=FILE", "Write this buffer to the file after the run; may be repeated"},
    {"--scale", "X", "Factor for the times of the kernels"},
    {"--scenario", "",
     "server: Poisson requests to one model, VALID or INVALID by their 99th percentile, as "
     "MLPerf's LoadGen judges its Server scenario"},
    {"--scheduler", "SCHEDULER", "The scheduler; `partita planners` lists them"},
    {"--schedulers", "SCHEDULERS",
     "The schedulers, separated by commas; by default best, far, miso and fixed-best, and exact "
     "for at most 12 tasks"},
    {"--seed", "N", "Random seed: the same seed gives the same result"},
    {"--seen", "FILE",
     "JSON that is read at every poll: services: [{name, rate_rps, p95_ms, waiting}]"},
    {"--sensor", "K", "Resolution of the sensors in kelvin; they round down"},
    {"--sensor-of", "", "Which temperature sensor"},
    {"--sequences", "N", "Requests that an engine works on at the same time, at most"},
    {"--sequential", "", "Run one task after another, on one thread"},
    {"--server", "URL",
     "Let the agent at URL do it: unix:/run/partita/api.sock, http://HOST:PORT, https://HOST:PORT "
     "(docs/api.md)"},
    {"--server-address", "ADDRESS",
     "Where the server of remote execution listens: unix:PATH, tcp:HOST:PORT (default of `remote "
     "run`: a private one on this machine)",
     "--server"},
    {"--server-ca", "FILE", "Certificates to trust for --server instead of the system's"},
    {"--service", "NAME", "Name of the service"},
    {"--services", "FILE",
     "The services: a YAML or JSON list of name, model, rate_rps, slo_ms and more "
     "(docs/formats.md; `kind: llm`: docs/llm.md)"},
    {"--session", "FILE",
     "What was recorded (kind InfraredSession, JSON or YAML): pixel size, pictures, watts per "
     "component, calibration"},
    {"--sessions", "N", "Sessions at the same time, where no --shape is given"},
    {"--sessions-at", "ADDRESS", "unix:PATH of `remote serve`, at the server's end"},
    {"--set", "KEY=VALUE", "A key of the configuration with another value; may be repeated"},
    {"--set-mode", "MODE", "With --server: how changes come about from now on"},
    {"--settings", "FILE", "Settings of the agent (docs/agent.md); flags go before them"},
    {"--shadow", "SERVICE@VERSION=PERCENT",
     "As --canary, but with copies of requests, whose answers are thrown away"},
    {"--shape", "SHAPE",
     "A part for one session, as in CPU-4; give it as often as there are parts"},
    {"--share", "USER=N", "Weight of a user (default 1)"},
    {"--shared", "BYTES", "Bytes of dynamic shared memory"},
    {"--shares", "SHARES",
     "Shares of the tasks that run well up to a size, instead of --scaling: 1:0.2,2:0.2,7:0.6"},
    {"--shares-file", "FILE",
     "Write the shares to this JSON file at every change: services: [{name, units, percent, "
     "batch}]; several services need it"},
    {"--sharing", "", "How processes share an instance (device-plugin)"},
    {"--show", "", "Print the workers and end"},
    {"--silicon-um", "UM", "Thickness of the die"},
    {"--simulate", "DAYS", "Simulate this many days of a node under changing traffic, in seconds"},
    {"--since", "DURATION", "Nothing older than this: 30m, 2h, 7d"},
    {"--site", "FILE", "The Slurm cluster: which GPUs are on which nodes (docs/slurm.md)"},
    {"--size", "N", "Rows and columns of the example's matrices"},
    {"--slo-rule", "RULE",
     "What meeting a latency objective means. pooled: the percentile of the latency, waiting "
     "included, is <= SLO when a service's instances share one queue; queueing: when every "
     "instance has its own; execution:F: a batch executes in < F x SLO. Default: the plan's, or "
     "the planner's own, or pooled"},
    {"--sm", "N", "Number of the SM that the programs run on"},
    {"--socket", "PATH", "Socket of the queue (default: queue/queue.sock in the state directory)"},
    {"--source", "TEXT", "Where the measurements come from, kept in the result"},
    {"--speed", "", "fast: as fast as the server allows; recorded: at the recorded times"},
    {"--spin", "", "Spin instead of sleeping (dedicated CPUs only)"},
    {"--spread", "SHARE", "Standard deviation of a task's time, as a share of its planned time"},
    {"--stale", "TIME", "Age at which --seen no longer counts; then the full clock is set"},
    {"--start", "SLICE", "Memory slice to begin at, if it is free; else at the best place"},
    {"--startup", "DURATION", "Longest time until a new worker answers"},
    {"--state", "FILE", "State of the node as `partita status --format json` writes it"},
    {"--state-dir", "DIR",
     "Folder of the state: journal, assignment, sessions (default: $PARTITA_STATE_DIR, else one "
     "per node below /var/lib/partita or ~/.local/state/partita)"},
    {"--stats", "FILE", "Write the program's calls and round trips to FILE as JSON at its end"},
    {"--steady-file", "FILE",
     "Also write blocks and package nodes in HotSpot's form (.steady, .init)"},
    {"--step-cost", "KEY=MS,...",
     "Milliseconds of a step of an engine: step, and for each one sequence, cached_token, "
     "prompt_token"},
    {"--step-tokens", "N", "Tokens that a step of an engine computes, at most"},
    {"--steps", "N", "Steps per doubling of the time since a sample began (integrate)"},
    {"--stream-idle", "TIME", "Timeout for silent engine streams"},
    {"--streams", "N", "Masks that a worker keeps streams for"},
    {"--strict", "", "Exit 1 when a deadline or an SLO is missed"},
    {"--stuck", "TIME", "Move a job not started after this time"},
    {"--submission", "FILE", "A QueueSubmission (JSON or YAML) instead of flags"},
    {"--survive", "N",
     "GPUs that may be lost, any of them: the others keep every SLO as they are (else what the "
     "services file says)"},
    {"--survive-domain", "",
     "What may be lost, any one of it, while the others carry every service: none, node, rack, "
     "zone or feed"},
    {"--sweep", "NAME=V,V,...",
     "Run the policies once per value of a parameter: switches, streams, gamma, launch-us, "
     "switch-us, mask-us, spread, static-w or unit-w"},
    {"--switch-cost", "US", "Microseconds that a change takes"},
    {"--switches", "N",
     "How many times the number of units may change within a request of a worker"},
    {"--table", "FILE", "Response table: model,clock_mhz,units,batch,p95_ms,max_rps,power_w"},
    {"--take-from", "OWNER", "Take over what this owner holds, as it is, instead of making one"},
    {"--takes", "TIME", "How long the task takes, as in 40s, or 3g=40s on three slices"},
    {"--target-qps", "RATE", "Requests per second"},
    {"--task-name", "NAME", "Name of the task, under which its times are learned"},
    {"--tasks", "FILE",
     "The tasks: a CSV of task, time_s_1g, time_s_2g, ... (seconds on an instance of that size; "
     "empty where it does not fit) and optional command, release_s, deadline_s, priority, after"},
    {"--telemetry", "FILE",
     "Log of what the GPUs did: of `partita observe --record`, or DCGM's text; live: watch this "
     "node now (energy attribute)"},
    {"--tenant", "NAME=LIST",
     "A tenant and its services, or the beginnings of its block names; may be repeated"},
    {"--text-bytes", "N", "Bytes of text that a tensor of BYTES may have in one item"},
    {"--threads", "N", "Number of threads (default: one per core; of a worker 1)"},
    {"--time", "SECONDS",
     "Search for about so long, and not beyond --budget where that is given. What is found depends "
     "on the machine; the --budget that finds it again is printed"},
    {"--time-limit", "TIME", "Longest time of one attempt"},
    {"--time-range", "RANGE",
     "Seconds on one slice, shortest and longest, instead of --times: 90,100"},
    {"--timeout", "TIME",
     "How long it may take; of a task also a multiple of the planned time (3x) (default: never "
     "ends)"},
    {"--tls-ca", "FILE", "Certificates to trust instead of the system's, with https"},
    {"--tls-cert", "FILE", "Certificate chain, PEM"},
    {"--tls-key", "FILE", "Private key of the certificate, PEM"},
    {"--to", "", "Format to write"},
    {"--token-file", "FILE", "Token file: its first line is the token"},
    {"--token-shapes", "LIST",
     "Tokens in and out of the requests that measure an engine, as in 256/64,1024/256"},
    {"--tokens", "FILE", "Token file: one token per line, with the services it is for or *"},
    {"--told", "COLUMN=VALUE",
     "Values missing in the files: system, backend, version, model, precision, profile, tp, pp, "
     "attention_dp, moe_tp, moe_ep, step_tokens, kv_tokens, kv_move_ns, units, concurrency; "
     "repeatable"},
    {"--tolerance", "SHARE", "Share by which a kernel may take longer than on the whole GPU"},
    {"--topology", "TOPOLOGY",
     "The units of the GPU: MI50, MI100, MI210, MI250, MI300X, A100, H100, H200, or CLUSTERSxUNITS",
     "--gpu"},
    {"--trace", "FILE", "Recorded arrivals, squeezed into --duration"},
    {"--truth", "FILE", "The true blocks (.flp), to rate every method"},
    {"--ttl", "TIME", "End after this time"},
    {"--ttrace", "FILE", "Also write the blocks' temperatures (K) in HotSpot's form (.ttrace)"},
    {"--unit-cost", "J", "Energy of changing the units once"},
    {"--unit-step", "N", "Numbers of units: 1, 1 + N, 1 + 2 N ... and all"},
    {"--units", "N", "Number of SMs, CUs or CPU threads"},
    {"--until-over", "", "Wait until it has ended; exit status 1 if it failed"},
    {"--unused", "W",
     "Watts of a GPU without work (default: the table's board at rest; 0: switched off)"},
    {"--urgent-after", "TIME",
     "Time that an urgent task waits before a preemptible one is ended for it"},
    {"--url", "URL", "The server: http://HOST:PORT, or https"},
    {"--user", "NAME", "Only what this user did"},
    {"--value", "INPUT=NUMBER",
     "Usual value of an input, as in rate=16000; used to try a model out, and to measure it"},
    {"--variation", "FACTOR", "Factor for the smoothing inside blocks (method tv)"},
    {"--volts", "LOW,HIGH", "Voltage at the lowest and at the highest clock (default: 0.65,1.06)"},
    {"--wait", "SECONDS", "Seconds to wait"},
    {"--waits", "",
     "Where a kernel waits for another one. device: queued behind it when it takes over the same "
     "units; host: always on the CPU"},
    {"--wall-limit", "TIME", "End sessions after this long"},
    {"--warm", "N", "Workers kept ready for new sessions"},
    {"--watch", "", "Again every --interval, until a signal; on a terminal in place"},
    {"--watts", "WATTS", "Watts from now on (default: the mean of the last minute)"},
    {"--what-if", "SERVICE=RATE",
     "Play a service at another rate, in requests per second; may be given again"},
    {"--while", "PID", "End with this process"},
    {"--why", "TEXT", "Reason, for the history"},
    {"--window", "TIME", "Length of a row of the log"},
    {"--with", "double-memory|me|double-memory,me",
     "Profiles besides the plain ones, separated by commas: double-memory, me (media engines), or "
     "names of profiles"},
    {"--with-parent", "", "End when the process that started it ends"},
    {"--with-steps", "", "Also show the steps of all changes"},
    {"--work-s", "SECONDS",
     "Work in seconds at the highest clock; rows repeat (default: one pass, 4 s in the example)"},
    {"--worker-flag", "WORD", "Additional argument for `partita worker`; may be repeated"},
    {"--workers", "NAMES",
     "The co-located models, separated by commas; repeat a name for several workers of one model"},
    {"--workload", "NAME", "One of the example's workloads; with --flp a name for the trace"},
    {"-o,--output", "FILE", "Write the result to FILE (atomically: never a partly written file)"},
};

static_assert(std::ranges::is_sorted(kWords, {}, &FlagWords::name));

}  // namespace

const FlagWords& words_of(std::string_view name) {
  const auto found = std::ranges::lower_bound(kWords, name, {}, &FlagWords::name);
  CHECK(found != std::end(kWords) && found->name == name);
  return *found;
}

CLI::Option* one_of(CLI::Option* option, const std::vector<std::string>& words) {
  option->type_name(joined(words, "|"));
  return option->check([words](const std::string& value) {
    if (std::find(words.begin(), words.end(), value) != words.end()) return std::string{};
    return fmt::format("'{}' is not one of {}{}", value, joined(words, ", "),
                       did_you_mean(value, words));
  });
}

CLI::Option* within(CLI::Option* option, double least, double most) {
  return option->check([least, most](const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
      return fmt::format("'{}' is not a number", text);
    if (value >= least && value <= most) return std::string{};
    return fmt::format("{} is not between {} and {}", text, least, most);
  });
}

CLI::Option* one_of(CLI::App& command, std::string_view name, std::string& value,
                    const std::vector<std::string>& words, const std::string& details) {
  return one_of(flag(command, name, value, details), words)->capture_default_str();
}

CLI::Option* add_tariff_flags(CLI::App& command, decide::TariffFiles& files) {
  CLI::Option* prices = flag(command, "--prices", files.prices);
  within(flag(command, "--carbon-price", files.carbon_price), 0, 1e6);
  return prices;
}

Result<Seconds> parse_duration(const std::string& flag, const std::string& text, Seconds most) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [unit, error] = std::from_chars(text.data(), end, value);
  const std::string_view suffix(unit, static_cast<std::size_t>(end - unit));
  double scale = 0;
  if (suffix.empty() || suffix == "s") scale = 1;
  if (suffix == "ms") scale = 1e-3;
  if (suffix == "m") scale = 60;
  if (suffix == "h") scale = 3600;
  if (suffix == "d" && most > kMaxDuration) scale = 86'400;
  if (error != std::errc{} || scale == 0)
    return bad_input(flag, fmt::format("'{}' is not a duration such as 60s, 5m or 500ms", text));
  const Seconds duration{value * scale};
  if (!(duration.value > 0 && duration <= most))
    return bad_input(
        flag, fmt::format("'{}' is not between 0 and {} s (excluding 0)", text, most.value));
  return duration;
}

Result<std::int64_t> parse_nanos(const std::string& flag, const std::string& text) {
  const Seconds duration = TRY(parse_duration(flag, text));
  return static_cast<std::int64_t>(duration.value * 1e9);
}

}  // namespace partita::cli
