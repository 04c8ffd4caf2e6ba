"""The documents and operations of an agent's API, as its OpenAPI document says.
Written by tools/make_python_types.py, and compared with an agent by a test."""

import json
import urllib.parse
from typing import Any, Literal, NotRequired, TypedDict, cast

from partita._reading import Input
from partita.documents import ServingPlan


class AgentStateStateGpusHolders(TypedDict):
    # of a process
    pid: int
    # empty where the driver does not tell
    name: str


class AgentStateStateGpusInstancesCompute(TypedDict):
    # of the compute instance
    ci_id: int
    # compute slices
    gpcs: int
    # of the MIG device
    uuid: str


class AgentStateStateGpusInstances(TypedDict):
    # catalogue name
    profile: str
    # first memory slice
    start: int
    # memory slices
    size: int
    # compute slices
    gpcs: int
    # the driver's
    profile_id: int
    # of the GPU instance
    gi_id: int
    # by ci_id
    compute: list[AgentStateStateGpusInstancesCompute]
    # processes on it
    holders: list[AgentStateStateGpusHolders]


class AgentStateStateGpus(TypedDict):
    # the driver's
    index: int
    # of the GPU
    uuid: str
    # the driver's product name
    name: str
    # catalogue name; empty: unknown
    model: str
    # as the driver says
    pci_device_id: str
    # in all
    memory_mib: float
    # can be cut
    mig_capable: bool
    # is in MIG mode
    mig_enabled: bool
    # the mode after the next reset
    mig_pending: bool
    # fell off the bus
    lost: bool
    # processes outside any instance
    holders: list[AgentStateStateGpusHolders]
    # by start
    instances: list[AgentStateStateGpusInstances]


class AgentStateState(TypedDict):
    # "sim", "nvml"
    driver: str
    # as the driver says
    driver_version: str
    # by index
    gpus: list[AgentStateStateGpus]


class AgentStateAssignmentSegments(TypedDict):
    # UUID of the MIG device; of a group of whole GPUs theirs
    device: str
    # of its GPU, the first one of a group
    gpu_uuid: str
    # catalogue name
    profile: str
    # first memory slice
    start: int
    # that runs there
    service: str
    # largest batch
    batch: int
    # that share it
    processes: int
    # planned to carry at most
    throughput_rps: NotRequired[float]
    # models at once, of a set of them
    held: NotRequired[int]
    # SMs that only compute prompts
    prefill_units: NotRequired[int]
    # SMs that only decode
    decode_units: NotRequired[int]
    # of a language model: how it was measured; batch is its concurrency
    engine: NotRequired[str]
    # vllm, sglang, trtllm, ...; missing: not said
    engine_backend: NotRequired[str]
    # of the engine; missing: not said
    engine_version: NotRequired[str]
    # of its weights; missing: not said
    precision: NotRequired[str]
    # GPUs that share a layer; missing: not said
    tp: NotRequired[int]
    # stages of layers; missing: not said
    pp: NotRequired[int]
    # copies of attention; missing: not said
    attention_dp: NotRequired[int]


class AgentStateAssignmentServicesArrivals(TypedDict):
    # how requests arrive
    law: Literal["poisson", "uniform", "gamma", "burst", "mmpp", "trace"]
    # gamma: the gaps' coefficient of variation
    cv: NotRequired[float]
    # burst, mmpp: times the mean rate
    peak: NotRequired[float]
    # burst, mmpp: so long
    seconds: NotRequired[float]
    # burst, mmpp: so often
    every: NotRequired[float]
    # trace: as the services file names it
    file: NotRequired[str]
    # trace: its row; missing: the service's name
    row: NotRequired[str]


class AgentStateAssignmentServicesRates(TypedDict):
    # of the day
    minute: int
    # from then on
    rate_rps: float


class AgentStateAssignmentServicesTokensIn(TypedDict):
    # of all requests
    mean: NotRequired[float]
    # lognormal: the coefficient of variation; missing: all have the mean
    cv: NotRequired[float]
    # one of them, each as likely as the others
    listed: NotRequired[list[int]]


AgentStateAssignmentServicesTokens = TypedDict("AgentStateAssignmentServicesTokens", {
    # to the first token; missing: any time
    "ttft_ms": NotRequired[float],
    # per token after it, on average over an answer; missing: any time
    "tpot_ms": NotRequired[float],
    # tokens of prompts
    "in": NotRequired[AgentStateAssignmentServicesTokensIn],
    # tokens of answers
    "out": NotRequired[AgentStateAssignmentServicesTokensIn],
    # lengths of both, as the services file names it
    "trace": NotRequired[str],
    # prompts are so many times as long; missing: 1
    "in_times": NotRequired[float],
    # answers are so many times as long; missing: 1
    "out_times": NotRequired[float],
    # of requests that begin with the same tokens
    "prefix_share": NotRequired[float],
    # that those begin with
    "prefix_tokens": NotRequired[int],
})


class AgentStateAssignmentServicesModelsList(TypedDict):
    # by which requests ask for it
    name: str
    # of the requests, in proportion; missing: 1
    weight: NotRequired[float]


class AgentStateAssignmentServicesModels(TypedDict):
    # by weight
    list: list[AgentStateAssignmentServicesModelsList]
    # of one that is loaded
    memory_mib: float
    # of the process with none; missing: 0
    reserve_mib: NotRequired[float]
    # to load one, at most
    load_ms: float
    # of requests whose model is not loaded; missing: the SLO alone is promised
    cold_ms: NotRequired[float]


class AgentStateAssignmentServicesPipelineSteps(TypedDict):
    # a service of the same file, or a model that is measured
    model_name: str
    # inputs of the model: tensors of the pipeline
    input_map: dict[str, Any]
    # outputs of the model: tensors of the pipeline
    output_map: dict[str, Any]
    # requests for one of what it reads, the mean of a Poisson law; missing: exactly one
    fan_out: NotRequired[float]
    # of the SLO, as planned
    share_ms: NotRequired[float]


class AgentStateAssignmentServicesPipeline(TypedDict):
    # models, each behind those whose outputs it reads
    steps: list[AgentStateAssignmentServicesPipelineSteps]


class AgentStateAssignmentServicesCache(TypedDict):
    # of a gateway, for the answers
    memory_mib: float
    # an answer is good; missing: without end
    ttl_s: NotRequired[float]
    # by all clients; missing: each finds its own
    shared: NotRequired[bool]


class AgentStateAssignmentServices(TypedDict):
    # of the service
    name: str
    # that it runs; missing: not known
    model: NotRequired[str]
    # asked for; 0: not known
    rate_rps: NotRequired[float]
    # asked for; 0: not known
    slo_ms: NotRequired[float]
    # of the requests that shall keep the SLO; missing: not known
    percentile: NotRequired[float]
    # instances at least; missing: 1
    min_replicas: NotRequired[int]
    # no two instances on one GPU
    spread: NotRequired[bool]
    # never on a GPU with one of these
    avoid: NotRequired[list[str]]
    # share of the rate that is planned for on top; missing: 0
    headroom: NotRequired[float]
    # how requests arrive; missing: Poisson
    arrivals: NotRequired[AgentStateAssignmentServicesArrivals]
    # over the day; missing: the same all day
    rates: NotRequired[list[AgentStateAssignmentServicesRates]]
    # of a language model, which answers token by token; missing: it is none
    tokens: NotRequired[AgentStateAssignmentServicesTokens]
    # many that share its instances; missing: it is one
    models: NotRequired[AgentStateAssignmentServicesModels]
    # services that its requests go through; missing: it is none
    pipeline: NotRequired[AgentStateAssignmentServicesPipeline]
    # only pipelines ask for it; its SLO is a share of theirs
    member: NotRequired[bool]
    # of answers for who asks the same again; missing: the service has none
    cache: NotRequired[AgentStateAssignmentServicesCache]
    # where not all have room the lower ones get less; missing: 0
    priority: NotRequired[int]
    # the server that the promise is made for; missing: pooled
    dispatch: NotRequired[Literal["pooled", "paced", "shared-queue", "per-process"]]


class AgentStateAssignment(TypedDict):
    # grows with every write
    revision: int
    # by device
    segments: list[AgentStateAssignmentSegments]
    # by name: what they ask for and are promised
    services: NotRequired[list[AgentStateAssignmentServices]]


class AgentStateGpusSampleActivity(TypedDict):
    # share of time it was busy
    graphics_engine: NotRequired[float]
    # mean share of SMs with a warp on them
    sm: NotRequired[float]
    # warps on the SMs, of the most there can be
    occupancy: NotRequired[float]
    # share of time the tensor pipes were busy
    tensor: NotRequired[float]
    # share of time the FP64 pipe was busy
    fp64: NotRequired[float]
    # share of time the FP32 pipe was busy
    fp32: NotRequired[float]
    # share of time the FP16 pipe was busy
    fp16: NotRequired[float]
    # share of time the integer pipe was busy
    integer: NotRequired[float]
    # share of the memory's bandwidth in use
    dram: NotRequired[float]


class AgentStateGpusSampleInstances(TypedDict):
    # of the GPU instance
    gi_id: int
    # of the MIG device; missing without a compute instance
    uuid: NotRequired[str]
    # "3g.40gb"
    profile: NotRequired[str]
    compute_slices: NotRequired[int]
    memory_slices: NotRequired[int]
    # of this instance, in shares of it
    activity: NotRequired[AgentStateGpusSampleActivity]
    memory_used_mib: NotRequired[float]


class AgentStateGpusSampleProcesses(TypedDict):
    # as the system numbers it
    pid: int
    # its instance
    gi_id: NotRequired[int]
    # that it holds
    memory_mib: float


class AgentStateGpusSample(TypedDict):
    # of the GPU on its node
    index: int
    # of the GPU
    uuid: NotRequired[str]
    # as the catalogue names it
    model: NotRequired[str]
    # of the whole board
    compute_slices: NotRequired[int]
    # of the board, now
    power_w: NotRequired[float]
    # mean of the last second
    power_average_w: NotRequired[float]
    # counter of the board
    energy_j: NotRequired[float]
    # in force
    power_limit_w: NotRequired[float]
    # of the chip
    temperature_c: NotRequired[float]
    memory_temperature_c: NotRequired[float]
    sm_clock_mhz: NotRequired[float]
    memory_clock_mhz: NotRequired[float]
    # reasons in force, sorted
    throttle: NotRequired[list[str]]
    # of the whole GPU
    activity: NotRequired[AgentStateGpusSampleActivity]
    # by gi_id
    instances: NotRequired[list[AgentStateGpusSampleInstances]]
    # by pid
    processes: NotRequired[list[AgentStateGpusSampleProcesses]]


class AgentStateGpus(TypedDict):
    # the driver's
    index: int
    # of the GPU
    uuid: str
    # catalogue name; empty: unknown
    model: str
    # not used: taken out by a person or by its health, or not usable
    out: bool
    # why it is out
    why: NotRequired[str]
    # what it said of itself last
    sample: NotRequired[AgentStateGpusSample]


class AgentStateServicesTokenTraffic(TypedDict):
    # tokens of prompts a second
    in_per_s: float
    # tokens of answers a second
    out_per_s: float
    # tokens of a prompt
    mean_in: float
    # tokens of an answer
    mean_out: float
    # time to the first token
    ttft_p50_ms: NotRequired[float]
    # time to the first token
    ttft_p99_ms: NotRequired[float]
    # time per token after it
    tpot_p50_ms: NotRequired[float]
    # time per token after it
    tpot_p99_ms: NotRequired[float]
    # share of KV cache in use now, of the fullest engine that says it
    kv_cache_usage_perc: NotRequired[float]


class AgentStateServicesColdStarts(TypedDict):
    # whose model was loaded first, and were answered
    requests: int
    # of them, within what is promised
    in_time: int
    # cold_ms of the set, else its SLO
    promised_ms: float
    # from head to answer
    mean_ms: float


class AgentStateServices(TypedDict):
    # of the service
    name: str
    # that it runs
    model: NotRequired[str]
    # its objective
    slo_ms: NotRequired[float]
    # of the requests that shall keep it; missing: 99
    percentile: NotRequired[float]
    # as the services file says
    wanted_rps: NotRequired[float]
    # instances at least; missing: 1
    min_replicas: NotRequired[int]
    # no two instances on one GPU
    spread: NotRequired[bool]
    # never on a GPU with one of these
    avoid: NotRequired[list[str]]
    # share of the rate that is planned for on top; missing: 0
    headroom: NotRequired[float]
    # how requests arrive; missing: Poisson
    arrivals: NotRequired[AgentStateAssignmentServicesArrivals]
    # over the day; missing: the same all day
    rates: NotRequired[list[AgentStateAssignmentServicesRates]]
    # of a language model, which answers token by token; missing: it is none
    tokens: NotRequired[AgentStateAssignmentServicesTokens]
    # many that share its instances; missing: it is one
    models: NotRequired[AgentStateAssignmentServicesModels]
    # services that its requests go through; missing: it is none
    pipeline: NotRequired[AgentStateAssignmentServicesPipeline]
    # only pipelines ask for it; its SLO is a share of theirs
    member: NotRequired[bool]
    # of answers for who asks the same again; missing: the service has none
    cache: NotRequired[AgentStateAssignmentServicesCache]
    # where not all have room the lower ones get less; missing: 0
    priority: NotRequired[int]
    # as measured now
    rate_rps: NotRequired[float]
    # the highest of the next minutes
    forecast_rps: NotRequired[float]
    # lower end of its interval
    forecast_low_rps: NotRequired[float]
    # upper end of its interval
    forecast_high_rps: NotRequired[float]
    # what the plan in force is made for; missing: 0
    planned_rps: NotRequired[float]
    # the same as can_carry_rps
    capacity_rps: NotRequired[float]
    # that run; missing: 0
    segments: NotRequired[int]
    # as the gateway says; missing: 0
    ready_workers: NotRequired[int]
    # measured
    p99_ms: NotRequired[float]
    # share of requests in SLO, measured
    attainment: NotRequired[float]
    # of a language model, of the last half minute
    token_traffic: NotRequired[AgentStateServicesTokenTraffic]
    # its part of the boards': by how busy its instances are, idle power by compute slices
    watts: NotRequired[float]
    # the same in joules, since the agent began
    energy_j: NotRequired[float]
    # its part of what CPUs and memory take: by CPU time, else by compute slices
    host_w: NotRequired[float]
    # the same in joules
    host_energy_j: NotRequired[float]
    # of these: idle power
    host_idle_j: NotRequired[float]
    # money for all these joules, by the hour
    energy_cost: NotRequired[float]
    # grams of CO2 for them
    co2_g: NotRequired[float]
    # whether it is served
    verdict: Literal["serves", "degraded", "at_risk", "down", "unknown"]
    # it has been so, UTC
    since: str
    # when that was measured; empty: never; missing: as the document's
    as_of: NotRequired[str]
    # instead of why: a place in `reasons`, from 0
    reason: NotRequired[int]
    # a sentence; empty: it is served
    why: NotRequired[str]
    # answered or not, in the last seconds; missing: 0
    asked_rps: NotRequired[float]
    # in time, in the last seconds; missing: 0
    answered_rps: NotRequired[float]
    # by the workers that are ready; missing: 0
    can_carry_rps: NotRequired[float]
    # of a set of models
    cold_starts: NotRequired[AgentStateServicesColdStarts]
    # the verdict is another one than serves
    at_risk: NotRequired[bool]


class AgentStateCurrentChangeKeep(TypedDict):
    # the driver's index
    gpu: int
    # of the GPU
    gpu_uuid: str
    # catalogue name
    profile: str
    # first memory slice
    start: int
    # of the GPU instance
    gi_id: int
    # of its MIG device
    uuid: str
    # that runs there; missing: none
    service: NotRequired[str]
    # largest batch
    batch: NotRequired[int]
    # that share it
    processes: NotRequired[int]
    # planned to carry at most
    throughput_rps: NotRequired[float]
    # made by Partita
    ours: bool
    # processes on it
    holders: list[AgentStateStateGpusHolders]


class AgentStateCurrentChangeCreate(TypedDict):
    # the driver's index
    gpu: int
    # of the GPU
    gpu_uuid: str
    # catalogue name
    profile: str
    # first memory slice
    start: int
    # that runs there; missing: none
    service: NotRequired[str]
    # largest batch
    batch: NotRequired[int]
    # that share it
    processes: NotRequired[int]
    # planned to carry at most
    throughput_rps: NotRequired[float]


class AgentStateCurrentChangeReassignTo(TypedDict):
    # that runs there; missing: none
    service: NotRequired[str]
    # largest batch
    batch: NotRequired[int]
    # that share it
    processes: NotRequired[int]
    # planned to carry at most
    throughput_rps: NotRequired[float]


AgentStateCurrentChangeReassign = TypedDict("AgentStateCurrentChangeReassign", {
    # as it is
    "from": AgentStateCurrentChangeKeep,
    # what runs there then
    "to": AgentStateCurrentChangeReassignTo,
})


AgentStateCurrentChangeMove = TypedDict("AgentStateCurrentChangeMove", {
    # the driver's index
    "gpu": int,
    # of the GPU
    "gpu_uuid": str,
    # catalogue name
    "profile": str,
    # first memory slice
    "start": int,
    # that runs there; missing: none
    "service": NotRequired[str],
    # largest batch
    "batch": NotRequired[int],
    # that share it
    "processes": NotRequired[int],
    # planned to carry at most
    "throughput_rps": NotRequired[float],
    # where it was
    "from": AgentStateCurrentChangeKeep,
})


class AgentStateCurrentChangeSteps(TypedDict):
    # what is done
    op: Literal[
        "enable_mig", "disable_mig", "create_instance", "create_compute", "start", "stop",
        "drain", "destroy_compute", "destroy_instance"]
    # the driver's index
    gpu: int
    # of the GPU
    gpu_uuid: str
    # catalogue name
    profile: str
    # first memory slice
    start: int
    # that runs there; missing: none
    service: NotRequired[str]
    # largest batch
    batch: NotRequired[int]
    # that share it
    processes: NotRequired[int]
    # planned to carry at most
    throughput_rps: NotRequired[float]
    # of a stand-in
    temporary: NotRequired[bool]
    # of driver time
    predicted_s: float


class AgentStateCurrentChangeAffectedServices(TypedDict):
    # of the service
    name: str
    # with nothing running
    unavailable_s: float
    # below its minimum
    below_s: float
    # share of its capacity, at any moment
    least_available: float
    # why it goes below
    why: NotRequired[str]


class AgentStateCurrentChangeBlockers(TypedDict):
    # that must be destroyed
    instance: AgentStateCurrentChangeKeep
    # process that Partita does not run
    holder: AgentStateStateGpusHolders


class AgentStateCurrentChangeChanges(TypedDict):
    # instances that stay as they are
    kept: int
    # stay, with other processes
    restarted: int
    # are created elsewhere
    moved: int
    # are new
    created: int
    # go
    removed: int


class AgentStateCurrentChange(TypedDict):
    # per GPU of the plan the driver's index
    gpu_of: list[int]
    # instances that stay
    keep: list[AgentStateCurrentChangeKeep]
    # that go
    destroy: list[AgentStateCurrentChangeKeep]
    # that come
    create: list[AgentStateCurrentChangeCreate]
    # that stay and run something else
    reassign: list[AgentStateCurrentChangeReassign]
    # pairs out of destroy and create
    move: list[AgentStateCurrentChangeMove]
    # stand-ins
    temporary: list[AgentStateCurrentChangeCreate]
    # in order
    steps: list[AgentStateCurrentChangeSteps]
    # how far they go down
    affected_services: list[AgentStateCurrentChangeAffectedServices]
    # what is in the way
    blockers: list[AgentStateCurrentChangeBlockers]
    # counted as planners count
    changes: AgentStateCurrentChangeChanges
    # compute slices that stay untouched
    kept_gpcs: int
    # of driver time
    predicted_s: float
    # a sentence for each decision
    explanation: list[str]


class AgentStateCurrent(TypedDict):
    # of the change
    number: int
    # how far it is
    state: Literal["proposed", "approved", "applying", "succeeded", "failed", "rejected"]
    # why, a sentence
    cause: str
    # since 1970
    planned_ms: int
    # since 1970; 0: not yet
    ended_ms: int
    # of change.steps
    steps_done: int
    # why it failed; else empty
    error: str
    # how many there are; then explanation, change and plan are left out: AgentChange
    steps: NotRequired[int]
    # sentences
    explanation: NotRequired[list[str]]
    # how the node gets there
    change: NotRequired[AgentStateCurrentChange]
    # the target, a document ServingPlan
    plan: NotRequired[ServingPlan]


class AgentStateBatchTasks(TypedDict):
    # its number
    batch: int
    # of the task
    name: str
    # how far it is
    state: Literal["waiting", "running", "done", "failed", "skipped", "cancelled"]
    # where it runs
    gpu_uuid: NotRequired[str]
    # of its MIG instance
    profile: NotRequired[str]
    # first memory slice
    start: NotRequired[int]
    # since 1970; waiting: as expected
    begin_ms: NotRequired[int]
    # since 1970; not over: as expected
    end_ms: NotRequired[int]
    # so far
    attempts: NotRequired[int]
    # why it is as it is
    reason: NotRequired[str]


class AgentStateBatch(TypedDict):
    # tasks
    waiting: int
    # tasks
    running: int
    # tasks
    done: int
    # as scheduled
    ends_ms: NotRequired[int]
    # tasks, or skipped
    failed: NotRequired[int]
    # tasks
    cancelled: NotRequired[int]
    # their part of the boards'
    watts: NotRequired[float]
    # the same in joules, since the agent began
    energy_j: NotRequired[float]
    # that batches have now, by UUID
    gpus: NotRequired[list[str]]
    # of batches that are not over, and the newest others
    tasks: NotRequired[list[AgentStateBatchTasks]]


class AgentStatePower(TypedDict):
    # that its GPUs may draw together now
    budget_w: float
    # that they are limited to
    limits_w: float
    # that they draw
    draw_w: NotRequired[float]
    # GPUs that do not say their limit
    unlimited: NotRequired[int]


class AgentStateHost(TypedDict):
    # of all CPUs, by RAPL; missing: not told
    cpu_w: NotRequired[float]
    # of memory
    dram_w: NotRequired[float]
    # of the whole platform, where it says so
    psys_w: NotRequired[float]
    # of GPUs, CPUs and memory together
    node_w: NotRequired[float]
    # since the agent began
    cpu_j: NotRequired[float]
    # the same
    dram_j: NotRequired[float]
    # the same
    psys_j: NotRequired[float]
    # why a figure is missing
    fault: NotRequired[str]


class AgentStateUncarried(TypedDict):
    # that the fleet wants, and no node carries that answers
    service: str
    # at this node's gateway, of late
    asked_rps: float


class AgentStateVerdicts(TypedDict):
    # what was judged: planner, target, person
    asked: str
    # so often
    accepted: int
    # so often
    refused: int


class AgentState(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["AgentState"]
    # grows with every change of the rest
    version: int
    # the version in which `state` or `assignment` changed last
    node_version: NotRequired[int]
    # of a large node: keys that are documents of their own; `changes`: what is in them
    left_out: NotRequired[list[str]]
    # since 1970, UTC
    time_ms: int
    # host name
    node: str
    # how changes come about
    mode: Literal["automatic", "approve", "observe"]
    # the node and its workers are as the plan in force wants them; no change is needed
    converged: bool
    # a sentence
    doing: str
    # what was read of the node
    state: NotRequired[AgentStateState]
    # when that was, UTC
    state_as_of: str
    # why it cannot be read now, and so is as it was then
    state_fault: NotRequired[str]
    # which segment runs where
    assignment: NotRequired[AgentStateAssignment]
    # by index
    gpus: list[AgentStateGpus]
    # when services were measured that do not say it
    as_of: NotRequired[str]
    # by name
    services: list[AgentStateServices]
    # that several services have; {service}: the name of each, {asked}: its asked_rps
    reasons: NotRequired[list[str]]
    # in force, a document ServingPlan
    plan: NotRequired[ServingPlan]
    # proposed or under way
    current: NotRequired[AgentStateCurrent]
    # that ended
    last: NotRequired[AgentStateCurrent]
    # tasks of batches
    batch: AgentStateBatch
    # of the GPUs, by the fleet's budgets
    power: NotRequired[AgentStatePower]
    # what the node takes beside its GPUs
    host: NotRequired[AgentStateHost]
    # what its gateway is asked for in vain, since no node of the fleet carries it
    uncarried: NotRequired[list[AgentStateUncarried]]
    # newest first, few
    notices: list[str]
    # of the judge since the agent began
    verdicts: NotRequired[list[AgentStateVerdicts]]
    # of workers
    restarts: int
    # that keep failing now
    given_up_workers: int
    # how often the node was not as it was left
    drifts: int
    # made so far
    changes: int
    # so far
    failed_changes: int


class NodeStateGpusHolders(TypedDict):
    # of a process
    pid: int
    # null where the driver does not tell
    name: NotRequired[str | None]


class NodeStateGpusInstancesCompute(TypedDict):
    # of the compute instance
    ci_id: int
    # compute slices
    gpcs: int
    # of the MIG device
    uuid: NotRequired[str | None]


class NodeStateGpusInstances(TypedDict):
    # catalogue name
    profile: str
    # first memory slice
    start: int
    # memory slices
    size: NotRequired[int]
    # compute slices
    gpcs: NotRequired[int]
    # the driver's
    profile_id: NotRequired[int]
    # of the GPU instance
    gi_id: NotRequired[int]
    # of its MIG device
    uuid: NotRequired[str | None]
    # processes hold it
    busy: bool
    # by ci_id
    compute: NotRequired[list[NodeStateGpusInstancesCompute]]
    # by pid
    holders: NotRequired[list[NodeStateGpusHolders]]
    # that runs there
    service: NotRequired[str]
    # largest batch
    batch: NotRequired[int]
    # that share it
    processes: NotRequired[int]


class NodeStateGpus(TypedDict):
    # the driver's
    index: int
    # of the GPU
    uuid: NotRequired[str | None]
    # the driver's product name
    name: NotRequired[str | None]
    # catalogue name; null: unknown
    model: NotRequired[str | None]
    # as the driver says
    pci_device_id: NotRequired[str | None]
    # in all
    memory_mib: NotRequired[float]
    # can be cut
    mig_capable: NotRequired[bool]
    # is in MIG mode
    mig_enabled: NotRequired[bool]
    # the mode after the next reset
    mig_pending: NotRequired[bool]
    # fell off the bus
    lost: NotRequired[bool]
    # by pid
    holders: NotRequired[list[NodeStateGpusHolders]]
    # that runs there
    service: NotRequired[str]
    # largest batch
    batch: NotRequired[int]
    # that share it
    processes: NotRequired[int]
    # by start
    instances: NotRequired[list[NodeStateGpusInstances]]


class NodeStateServices(TypedDict):
    # of the service
    name: str
    # whether it is served
    verdict: Literal["serves", "degraded", "at_risk", "down", "unknown"]
    # it has been so, UTC
    since: str
    # when that was measured; empty: never
    as_of: str
    # a sentence; empty: it is served
    why: str
    # answered or not, in the last seconds
    asked_rps: float
    # in time, in the last seconds
    answered_rps: float
    # by the workers that are ready
    can_carry_rps: float
    # of a set of models
    cold_starts: NotRequired[AgentStateServicesColdStarts]


class NodeState(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["NodeState"]
    # that tells
    driver: NotRequired[str | None]
    # as the driver says
    driver_version: NotRequired[str | None]
    # by index
    gpus: list[NodeStateGpus]
    as_of: str
    fault: NotRequired[str]
    # whether each is served
    services: list[NodeStateServices]


class ChangeKeep(TypedDict):
    # the driver's index
    gpu: int
    # of the GPU
    gpu_uuid: str
    # catalogue name
    profile: str
    # first memory slice
    start: int
    # of the GPU instance; -1: whole GPUs
    gi_id: int
    # of its MIG device
    uuid: str
    # that runs there; missing: none
    service: NotRequired[str]
    # largest batch
    batch: NotRequired[int]
    # that share it
    processes: NotRequired[int]
    # processes hold it
    busy: NotRequired[bool]
    # made by Partita
    ours: NotRequired[bool]


class ChangeCreate(TypedDict):
    # the driver's index
    gpu: int
    # of the GPU
    gpu_uuid: str
    # catalogue name
    profile: str
    # first memory slice
    start: int
    # that runs there; missing: none
    service: NotRequired[str]
    # largest batch
    batch: NotRequired[int]
    # that share it
    processes: NotRequired[int]
    # the whole GPUs of its group
    devices: NotRequired[str]


ChangeMove = TypedDict("ChangeMove", {
    # the driver's index
    "gpu": int,
    # of the GPU
    "gpu_uuid": str,
    # catalogue name
    "profile": str,
    # first memory slice
    "start": int,
    # that runs there; missing: none
    "service": NotRequired[str],
    # largest batch
    "batch": NotRequired[int],
    # that share it
    "processes": NotRequired[int],
    # the whole GPUs of its group
    "devices": NotRequired[str],
    # where it was
    "from": NotRequired[ChangeKeep],
})


class ChangeReassign(TypedDict):
    # the driver's index
    gpu: int
    # of the GPU
    gpu_uuid: str
    # catalogue name
    profile: str
    # first memory slice
    start: int
    # that runs there; missing: none
    service: NotRequired[str]
    # largest batch
    batch: NotRequired[int]
    # that share it
    processes: NotRequired[int]


class ChangeSteps(TypedDict):
    # what is done
    op: Literal[
        "enable_mig", "disable_mig", "create_instance", "create_compute", "start", "stop",
        "drain", "destroy_compute", "destroy_instance"]
    # the driver's index
    gpu: int
    # of the GPU
    gpu_uuid: str
    # catalogue name
    profile: str
    # first memory slice
    start: int
    # that runs there; missing: none
    service: NotRequired[str]
    # largest batch
    batch: NotRequired[int]
    # that share it
    processes: NotRequired[int]
    # of a stand-in
    temporary: NotRequired[bool]
    # the whole GPUs of its group
    devices: NotRequired[str]
    # of driver time
    predicted_s: NotRequired[float]


class ChangeBlockers(TypedDict):
    # the driver's index
    gpu: int
    # of the GPU
    gpu_uuid: str
    # catalogue name
    profile: str
    # first memory slice
    start: int
    # of its MIG device
    uuid: str
    # of the process that holds it
    pid: int
    # of that process
    name: str


class Change(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["Change"]
    # instances that stay
    keep: list[ChangeKeep]
    # that go
    destroy: list[ChangeKeep]
    # that come
    create: list[ChangeCreate]
    # pairs out of destroy and create
    move: list[ChangeMove]
    # that stay and run something else
    reassign: list[ChangeReassign]
    # stand-ins
    temporary: list[ChangeCreate]
    # in order
    steps: list[ChangeSteps]
    # how far they go down
    affected_services: list[AgentStateCurrentChangeAffectedServices]
    # what is in the way
    blockers: list[ChangeBlockers]
    # a sentence for each decision
    explanation: list[str]
    # counted as planners count
    changes: AgentStateCurrentChangeChanges
    # slices left untouched
    kept_gpcs: int
    # of driver time
    predicted_s: float


class AgentBatchesBatches(TypedDict):
    # of the batch
    number: int
    # how far it is
    state: Literal["waiting", "running", "paused", "cancelling", "done", "failed", "cancelled"]
    # who handed it in
    user: str
    # since 1970
    received_ms: int
    # since 1970; missing: not
    ended_ms: NotRequired[int]
    # as scheduled
    ends_ms: NotRequired[int]
    # who; missing: nobody
    cancelled_by: NotRequired[str]
    # who; missing: nobody
    paused_by: NotRequired[str]
    # tasks
    waiting: int
    # tasks
    running: int
    # tasks
    done: int
    # tasks, or skipped
    failed: int
    # tasks
    cancelled: int
    # that it has now, by UUID
    gpus: list[str]
    # of one that is over: those that are still kept
    tasks: list[AgentStateBatchTasks]


class AgentBatches(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["AgentBatches"]
    # not over, and the newest others; newest first
    batches: list[AgentBatchesBatches]


class AgentBatch(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["AgentBatch"]
    # of the batch
    number: int
    # how far it is
    state: Literal["waiting", "running", "paused", "cancelling", "done", "failed", "cancelled"]
    # who handed it in
    user: str
    # since 1970
    received_ms: int
    # since 1970; missing: not
    ended_ms: NotRequired[int]
    # as scheduled
    ends_ms: NotRequired[int]
    # who; missing: nobody
    cancelled_by: NotRequired[str]
    # who; missing: nobody
    paused_by: NotRequired[str]
    # tasks
    waiting: int
    # tasks
    running: int
    # tasks
    done: int
    # tasks, or skipped
    failed: int
    # tasks
    cancelled: int
    # that it has now, by UUID
    gpus: list[str]
    # of one that is over: those that are still kept
    tasks: list[AgentStateBatchTasks]


class AgentChange(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["AgentChange"]
    # 0: a preview
    number: int
    # how far it is
    state: Literal["proposed", "approved", "applying", "succeeded", "failed", "rejected"]
    # why
    cause: str
    # since 1970
    planned_ms: int
    # since 1970; 0: not yet
    ended_ms: int
    # so far
    steps_done: int
    # why it failed
    error: str
    # sentences
    explanation: list[str]
    plan: NotRequired[ServingPlan]
    change: NotRequired[Change]


class ApiError(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["ApiError"]
    # a word for programs: not_found, forbidden, bad_input ...
    code: str
    # a sentence for people
    message: str
    # FILE:LINE or a parameter; may be empty
    where: str


class Health(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["Health"]
    # host name
    node: str
    # how changes come about
    mode: Literal["automatic", "approve", "observe"]
    # the node is as the plan in force wants it
    converged: bool
    # of the state; grows with every change of it
    version: int


class Version(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["Version"]
    # what `partita --version` says
    program: str


class Receipt(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["Receipt"]
    # the change it leads to; 0: none
    change: int
    # what happens now
    sentence: str


class LatestValues(TypedDict):
    # since 1970
    time_ms: int
    # what was measured
    metric: str
    # service or GPU; empty: the node
    subject: str
    # then
    value: float


class Latest(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["Latest"]
    # of every metric and subject
    values: list[LatestValues]


class Why(TypedDict):
    # for the history
    why: NotRequired[str]


class LeaseMinors(TypedDict):
    # of /dev/nvidiaN
    gpu: int
    # of /dev/nvidia-caps
    gpu_instance: int
    # of /dev/nvidia-caps
    compute_instance: int


class Lease(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["Lease"]
    # whose it is
    owner: str
    # of the MIG device; empty: it is not there
    uuid: str
    # the driver's index; -1: it is not there
    gpu: int
    # of the GPU
    gpu_uuid: str
    # its shape
    profile: str
    # first memory slice
    start: int
    # of the GPU instance
    gi_id: int
    # of the compute instance
    ci_id: int
    # what a container or a cgroup needs
    device_nodes: list[str]
    # of these nodes
    minors: LeaseMinors
    # since 1970
    since_ms: int
    # its end
    until_ms: NotRequired[int]
    # it ends with this process
    while_pid: NotRequired[int]
    # a process uses it
    busy: bool
    # it goes once nobody uses it
    expired: bool


class LeasesLeases(TypedDict):
    # whose it is
    owner: str
    # of the MIG device; empty: it is not there
    uuid: str
    # the driver's index; -1: it is not there
    gpu: int
    # of the GPU
    gpu_uuid: str
    # its shape
    profile: str
    # first memory slice
    start: int
    # of the GPU instance
    gi_id: int
    # of the compute instance
    ci_id: int
    # what a container or a cgroup needs
    device_nodes: list[str]
    # of these nodes
    minors: LeaseMinors
    # since 1970
    since_ms: int
    # its end
    until_ms: NotRequired[int]
    # it ends with this process
    while_pid: NotRequired[int]
    # a process uses it
    busy: bool
    # it goes once nobody uses it
    expired: bool


class Leases(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["Leases"]
    # that stand, the oldest first
    leases: list[LeasesLeases]
    # owners whose leases have ended now
    returned: NotRequired[list[str]]


LeaseWanted = TypedDict("LeaseWanted", {
    # whose it will be
    "owner": str,
    # its shape
    "profile": NotRequired[str],
    # this one alone
    "gpu": NotRequired[int],
    # there first
    "start": NotRequired[int],
    # there or nowhere
    "exact": NotRequired[bool],
    # how long it stands
    "ttl_s": NotRequired[float],
    # a process of the node that ends it
    "while_pid": NotRequired[int],
    # whose lease is handed over
    "from": NotRequired[str],
})


class QueueSubmissionAfter(TypedDict):
    # its id
    task: int
    # it ended with status 0; it ended; it ended with another one
    until: NotRequired[Literal["ok", "any", "not_ok"]]


class QueueSubmissionTimes(TypedDict):
    # compute slices; 0: whatever it has
    gpcs: int
    # how long it takes there
    time_s: float


class QueueSubmission(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["QueueSubmission"]
    # its times are learned under it
    name: NotRequired[str]
    # for /bin/sh
    command: str
    # whose it is; the caller's where missing
    user: NotRequired[str]
    # where it runs
    directory: NotRequired[str]
    # an array of so many tasks
    count: NotRequired[int]
    # what it waits for
    after: NotRequired[list[QueueSubmissionAfter]]
    # each step counts twice as much
    priority: NotRequired[int]
    # from its submission
    deadline_s: NotRequired[float]
    # of one attempt
    time_limit_s: NotRequired[float]
    # after a failure
    retries: NotRequired[int]
    # of the GPU
    memory_gib: NotRequired[float]
    # that it may run on: "3g.40gb", "3g"
    profiles: NotRequired[list[str]]
    # how long it takes, as far as is known
    times: NotRequired[list[QueueSubmissionTimes]]
    # spread of these times
    time_cv: NotRequired[float]
    # instances of one profile at once; of none named, whole GPUs
    gpus: NotRequired[int]
    # of the node
    cpus: NotRequired[int]
    # of the node
    ram_gib: NotRequired[float]
    # may be ended and begun again
    preemptible: NotRequired[bool]
    # command that is run before that
    checkpoint: NotRequired[str]
    # waits until it is released
    held: NotRequired[bool]
    # may wait for cheap hours until its deadline
    flexible: NotRequired[bool]


class QueueTaskSpec(TypedDict):
    # its times are learned under it
    name: NotRequired[str]
    # for /bin/sh
    command: str
    # whose it is; the caller's where missing
    user: NotRequired[str]
    # where it runs
    directory: NotRequired[str]
    # an array of so many tasks
    count: NotRequired[int]
    # what it waits for
    after: NotRequired[list[QueueSubmissionAfter]]
    # each step counts twice as much
    priority: NotRequired[int]
    # from its submission
    deadline_s: NotRequired[float]
    # of one attempt
    time_limit_s: NotRequired[float]
    # after a failure
    retries: NotRequired[int]
    # of the GPU
    memory_gib: NotRequired[float]
    # that it may run on: "3g.40gb", "3g"
    profiles: NotRequired[list[str]]
    # how long it takes, as far as is known
    times: NotRequired[list[QueueSubmissionTimes]]
    # spread of these times
    time_cv: NotRequired[float]
    # instances of one profile at once; of none named, whole GPUs
    gpus: NotRequired[int]
    # of the node
    cpus: NotRequired[int]
    # of the node
    ram_gib: NotRequired[float]
    # may be ended and begun again
    preemptible: NotRequired[bool]
    # command that is run before that
    checkpoint: NotRequired[str]
    # waits until it is released
    held: NotRequired[bool]
    # may wait for cheap hours until its deadline
    flexible: NotRequired[bool]


class QueueTaskPlaces(TypedDict):
    # index on the node
    gpu: int
    # its shape
    profile: str
    # memory slice
    start: int
    # UUID of the MIG device
    device: str


class QueueTaskDeadline(TypedDict):
    # what became of it, or is expected
    promise: Literal["met", "missed", "likely met", "likely missed", "unknown"]
    # seconds from the deadline to its end, or the expected one; missing where none is
    late_s: NotRequired[float]


class QueueTaskRuns(TypedDict):
    # its id
    task: int
    # from 1
    attempt: int
    # since 1970
    began_ms: int
    # the same
    ended_ms: int
    # exit status; -1: nobody knows
    status: int
    # done, failed, timed out, preempted, cancelled, lost
    outcome: str
    # where it ran
    places: list[QueueTaskPlaces]
    # joules of its instances; missing where nobody measured all the while
    energy_j: NotRequired[float]
    # joules of CPUs and memory, its part by CPU time; missing where nobody tells them
    host_energy_j: NotRequired[float]
    # of these: idle power
    host_idle_j: NotRequired[float]
    # money for all these joules, by the prices of its hours
    cost: NotRequired[float]
    # grams of CO2 for them
    co2_g: NotRequired[float]
    # against the hours from its submission on
    saved_cost: NotRequired[float]
    # the same
    saved_co2_g: NotRequired[float]


class QueueTask(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["QueueTask"]
    # its id
    task: int
    # what became of it
    state: Literal[
        "waiting", "held", "starting", "running", "done", "failed", "cancelled", "skipped"]
    # the first task of its array
    array: NotRequired[int]
    # in it
    index: NotRequired[int]
    # as it was submitted
    spec: QueueTaskSpec
    # since 1970
    submitted_ms: int
    # begun so far
    attempts: int
    # of them
    failures: int
    # the last attempt
    began_ms: int
    # the same
    ended_ms: int
    # exit status; -1: nobody knows
    status: int
    # why it is not done
    reason: NotRequired[str]
    # where it runs
    places: NotRequired[list[QueueTaskPlaces]]
    # why its attempt was asked to end
    ending: NotRequired[str]
    # its process
    pid: NotRequired[int]
    # of that process
    identity: NotRequired[str]
    # of the machine
    boot: NotRequired[str]
    # as planned now
    begins_in_s: NotRequired[float]
    # so
    ends_in_s: NotRequired[float]
    # its promise
    deadline: NotRequired[QueueTaskDeadline]
    # why it is not planned
    why: NotRequired[str]
    # its attempts that ended
    runs: list[QueueTaskRuns]


class QueueTasksTasks(TypedDict):
    # its id
    task: int
    # what became of it
    state: Literal[
        "waiting", "held", "starting", "running", "done", "failed", "cancelled", "skipped"]
    # the first task of its array
    array: NotRequired[int]
    # in it
    index: NotRequired[int]
    # as it was submitted
    spec: QueueTaskSpec
    # since 1970
    submitted_ms: int
    # begun so far
    attempts: int
    # of them
    failures: int
    # the last attempt
    began_ms: int
    # the same
    ended_ms: int
    # exit status; -1: nobody knows
    status: int
    # why it is not done
    reason: NotRequired[str]
    # where it runs
    places: NotRequired[list[QueueTaskPlaces]]
    # why its attempt was asked to end
    ending: NotRequired[str]
    # its process
    pid: NotRequired[int]
    # of that process
    identity: NotRequired[str]
    # of the machine
    boot: NotRequired[str]
    # as planned now
    begins_in_s: NotRequired[float]
    # so
    ends_in_s: NotRequired[float]
    # its promise
    deadline: NotRequired[QueueTaskDeadline]
    # why it is not planned
    why: NotRequired[str]


class QueueTasks(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["QueueTasks"]
    # by id
    tasks: list[QueueTasksTasks]


class ModeWanted(TypedDict):
    # how changes come about
    mode: Literal["automatic", "approve", "observe"]


class HistoryEventsDocuments(TypedDict):
    # of the document: plan, change, desired, verdict
    name: str
    # the document itself, JSON as text
    text: str


class HistoryEvents(TypedDict):
    # ascending; 0: not stored
    id: NotRequired[int]
    # since 1970, UTC
    time_ms: int
    # what happened
    kind: Literal[
        "started", "stopped", "desired", "proposed", "approved", "rejected", "applying",
        "step", "applied", "repair", "health", "notice", "hook", "access"]
    # that it belongs to; 0: none
    change: NotRequired[int]
    # who
    user: str
    # why, a sentence
    cause: NotRequired[str]
    # a service, a GPU
    subject: NotRequired[str]
    # how it ended
    outcome: NotRequired[Literal["none", "succeeded", "failed", "refused", "interrupted"]]
    # what, a sentence
    detail: NotRequired[str]
    # that belong to it
    documents: NotRequired[list[HistoryEventsDocuments]]


class History(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["History"]
    # newest first
    events: list[HistoryEvents]


class SeriesBuckets(TypedDict):
    # since 1970, UTC
    from_ms: int
    # 0: a single measurement
    length_ms: int
    # measurements in it
    count: int
    # of them
    mean: float
    # of them
    least: float
    # of them
    greatest: float


class Series(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["Series"]
    # rate_rps, planned_rps, p99_ms, attainment, watts, ...
    metric: str
    # a service, a GPU; empty: the node
    subject: NotRequired[str]
    # oldest first
    buckets: list[SeriesBuckets]


class FleetStatusNodesCarries(TypedDict):
    # its name
    service: str
    # that it carries
    rate_rps: float


class FleetStatusNodes(TypedDict):
    # its name
    node: str
    # where it is
    rack: NotRequired[str]
    # where it is
    zone: NotRequired[str]
    # address of its gateway
    gateway: NotRequired[str]
    # the same for gRPC
    grpc: NotRequired[str]
    # ready, becomes so, waits, trouble, drained, lost, unknown
    state: NotRequired[str]
    # whether its lease is alive
    there: bool
    # it shall carry nothing
    drained: bool
    # of the node
    gpus: int
    # for services
    usable_gpus: int
    # of its newest part; 0: it has none
    revision: int
    # the newest that it took
    taken: int
    # the newest that it has carried out
    ready: int
    # why it cannot be carried out
    trouble: NotRequired[str]
    # nodes that must carry its services first
    waits_for: NotRequired[str]
    # by service
    carries: list[FleetStatusNodesCarries]
    # that the node may draw
    budget_w: NotRequired[float]
    # of that, its GPUs
    gpu_budget_w: NotRequired[float]
    # that its GPUs draw
    gpu_draw_w: NotRequired[float]
    # it has said so; missing: it has
    holds_budget: NotRequired[bool]
    # the point that keeps it from more power
    limited_by: NotRequired[str]


class FleetStatusServicesOn(TypedDict):
    # where
    node: str
    # by the node's part
    planned_rps: float
    # now
    carried_rps: float
    # of its requests that should go there
    share: float


class FleetStatusServices(TypedDict):
    # its name
    service: str
    # serves, at_risk, degraded, down, unknown
    verdict: NotRequired[str]
    # to plan for
    wanted_rps: float
    # at all gateways, lately
    arrived_rps: float
    # by parts of nodes that are there
    planned_rps: float
    # by nodes that are there, now
    carried_rps: float
    # by node
    on: list[FleetStatusServicesOn]


class FleetStatusPowerPoints(TypedDict):
    # of the feed, PDU or rack
    name: str
    # missing: it is a feed
    under: NotRequired[str]
    # that it carries for ever
    rating_w: float
    # that it carries if all draw their budgets
    budget_w: float
    # it is dead
    failed: NotRequired[bool]


class FleetStatusPower(TypedDict):
    # fair, value
    sharing: str
    # of the budgets
    revision: int
    # feeds, PDUs and racks
    points: list[FleetStatusPowerPoints]
    # feeds whose failure the rest would not bear
    unsafe: NotRequired[list[str]]
    # what does not hold
    over: NotRequired[str]


class FleetStatus(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["FleetStatus"]
    # its name
    fleet: str
    # missing: nobody leads now
    leader: NotRequired[str]
    # the newest of all parts
    revision: int
    # every node that is there has carried out its part
    converged: bool
    # what may be lost: none, node, rack, zone
    survive: str
    # automatic, or approve: decisions wait for a person
    approval: str
    # digest of the decision that waits for a person
    proposal: NotRequired[str]
    # what it changes, a sentence each
    proposed: NotRequired[list[str]]
    # keys of the store that cannot be read, and why
    damaged: NotRequired[list[str]]
    # why the store is not heard: all of this was so at as_of_ms
    fault: NotRequired[str]
    # when it was heard last, since 1970
    as_of_ms: NotRequired[int]
    # by name
    nodes: list[FleetStatusNodes]
    # by name
    services: list[FleetStatusServices]
    # who may draw how much
    power: NotRequired[FleetStatusPower]


class FleetDecisionServicesOn(TypedDict):
    # where
    node: str
    # planned there
    rate_rps: float


class FleetDecisionServices(TypedDict):
    # its name
    service: str
    # to plan for
    need_rps: float
    # by all parts
    planned_rps: float
    # now
    carried_rps: float
    # by node
    on: list[FleetDecisionServicesOn]
    # what is missing; missing: nothing is
    why: NotRequired[str]


class FleetDecision(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["FleetDecision"]
    # of the parts
    digest: str
    # a sentence for each part
    changes: list[str]
    # as they are planned after it
    services: list[FleetDecisionServices]


class FleetHistoryEvents(TypedDict):
    # since 1970, by the clock of who wrote it
    time_ms: int
    # of the parts that were written; 0: none
    revision: int
    # who did it
    by: str
    # a sentence
    what: str


class FleetHistory(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["FleetHistory"]
    # oldest first
    events: list[FleetHistoryEvents]


def _quoted(part: str) -> str:
    return urllib.parse.quote(part, safe="")


class Operations:
    """A method per operation; how they are sent is for `Client` to say."""

    def _send(self, verb: str, path: str, body: Input | None = None, media: str = "",
              **query: Any) -> bytes:
        raise NotImplementedError

    def metrics(self) -> str:
        """Numbers for Prometheus, as text."""
        return self._send("GET", "/metrics").decode()

    def batches(self) -> AgentBatches:
        """The batches that are not over, and the newest others, with at most 500 tasks."""
        return cast(AgentBatches, json.loads(self._send("GET", "/v1/batch")))

    def submit_tasks(self, tasks: Input) -> Receipt:
        """A batch of tasks for the GPUs that are the batch's."""
        return cast(Receipt, json.loads(self._send("POST", "/v1/batch/tasks", tasks, "text/csv")))

    def batch(self, number: int) -> AgentBatch:
        """A batch with its tasks; 404: not known, or not any more."""
        return cast(AgentBatch, json.loads(self._send("GET", f"/v1/batch/{int(number)}")))

    def cancel_batch(self, number: int, why: str = "") -> Receipt:
        """Stops what runs of a batch; the rest of it never begins."""
        return cast(Receipt, json.loads(self._send("POST", f"/v1/batch/{int(number)}/cancel",
            {"why": why} if why else None)))

    def pause_batch(self, number: int, why: str = "") -> Receipt:
        """Begins no further task of a batch; what runs goes on."""
        return cast(Receipt, json.loads(self._send("POST", f"/v1/batch/{int(number)}/pause", {"why":
            why} if why else None)))

    def resume_batch(self, number: int, why: str = "") -> Receipt:
        """Goes on with a batch that was paused."""
        return cast(Receipt, json.loads(self._send("POST", f"/v1/batch/{int(number)}/resume",
            {"why": why} if why else None)))

    def current_change(self) -> AgentChange:
        """The change that is proposed or under way; 404: none."""
        return cast(AgentChange, json.loads(self._send("GET", "/v1/changes/current")))

    def change(self, number: int) -> AgentChange:
        """A change, however old."""
        return cast(AgentChange, json.loads(self._send("GET", f"/v1/changes/{int(number)}")))

    def approve(self, number: int, why: str = "") -> Receipt:
        """Lets a proposed change happen."""
        return cast(Receipt, json.loads(self._send("POST", f"/v1/changes/{int(number)}/approve",
            {"why": why} if why else None)))

    def reject(self, number: int, why: str = "") -> Receipt:
        """Keeps a proposed change from happening."""
        return cast(Receipt, json.loads(self._send("POST", f"/v1/changes/{int(number)}/reject",
            {"why": why} if why else None)))

    def fleet(self) -> FleetStatus:
        """The nodes of the fleet and what they carry, as this node knows it; 404: it is one of
        none."""
        return cast(FleetStatus, json.loads(self._send("GET", "/v1/fleet")))

    def fleet_history(self) -> FleetHistory:
        """What leaders did, oldest first."""
        return cast(FleetHistory, json.loads(self._send("GET", "/v1/fleet/history")))

    def fleet_plan(self) -> FleetDecision:
        """What the leader decided last; of the node that leads alone (else 404)."""
        return cast(FleetDecision, json.loads(self._send("GET", "/v1/fleet/plan")))

    def give_back(self, uuid: str) -> Receipt:
        """Uses a GPU again that was taken out."""
        return cast(Receipt, json.loads(self._send("POST", f"/v1/gpus/{_quoted(uuid)}/give-back")))

    def take_out(self, uuid: str, why: str = "") -> Receipt:
        """Moves the services of a GPU elsewhere and leaves it empty."""
        return cast(Receipt, json.loads(self._send("POST", f"/v1/gpus/{_quoted(uuid)}/take-out",
            {"why": why} if why else None)))

    def health(self) -> Health:
        """Whether the agent answers, and whether the node is as planned."""
        return cast(Health, json.loads(self._send("GET", "/v1/health")))

    def history(self, *, most: int | None = None, before: int | None = None, after: int | None =
                None, change: int | None = None, subject: str | None = None, user: str | None =
                None, kind: str | None = None, from_ms: int | None = None, to_ms: int | None = None,
                documents: bool | None = None) -> History:
        """What happened, newest first; with `change` the story of one."""
        return cast(History, json.loads(self._send("GET", "/v1/history", most=most, before=before,
            after=after, change=change, subject=subject, user=user, kind=kind, from_ms=from_ms,
            to_ms=to_ms, documents=documents)))

    def history_event(self, id: int) -> History:
        """One event."""
        return cast(History, json.loads(self._send("GET", f"/v1/history/{int(id)}")))

    def latest(self) -> Latest:
        """The newest value of every metric."""
        return cast(Latest, json.loads(self._send("GET", "/v1/latest")))

    def leases(self) -> Leases:
        """The instances that are lent, and to whom."""
        return cast(Leases, json.loads(self._send("GET", "/v1/leases")))

    def return_lease(self, owner: str) -> Leases:
        """Takes back what is lent to an owner; nothing is no error."""
        return cast(Leases, json.loads(self._send("DELETE", "/v1/leases", owner=owner)))

    def set_mode(self, mode: Literal["automatic", "approve", "observe"]) -> Receipt:
        """How changes come about: automatic, approve or observe."""
        return cast(Receipt, json.loads(self._send("PUT", "/v1/mode", {"mode": mode})))

    def node(self) -> NodeState:
        """The GPUs and instances as read last."""
        return cast(NodeState, json.loads(self._send("GET", "/v1/node")))

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI 3.1 document of this API."""
        return cast(dict[str, Any], json.loads(self._send("GET", "/v1/openapi.json")))

    def plan(self) -> ServingPlan:
        """The plan in force; 404: none."""
        return cast(ServingPlan, json.loads(self._send("GET", "/v1/plan")))

    def set_plan(self, plan: Input) -> Receipt:
        """Makes this plan, once the judge lets it pass for the services that are wanted (else
        409)."""
        return cast(Receipt, json.loads(self._send("PUT", "/v1/plan", plan)))

    def preview(self, services: Input) -> AgentChange:
        """The change that these services, or this plan, would lead to; nothing is changed."""
        return cast(AgentChange, json.loads(self._send("POST", "/v1/preview", services,
            "application/yaml")))

    def queue_submit(self, submission: Input) -> QueueTasks:
        """Puts tasks into the queue; answered once they are on disk."""
        return cast(QueueTasks, json.loads(self._send("POST", "/v1/queue/tasks", submission)))

    def queue_tasks(self, *, all: bool | None = None, after: int | None = None, most: int | None =
                    None) -> QueueTasks:
        """The tasks that have not ended."""
        return cast(QueueTasks, json.loads(self._send("GET", "/v1/queue/tasks", all=all,
            after=after, most=most)))

    def queue_task(self, number: int) -> QueueTask:
        """A task with its attempts."""
        return cast(QueueTask, json.loads(self._send("GET", f"/v1/queue/tasks/{int(number)}")))

    def queue_cancel(self, number: int) -> QueueTask:
        """Ends a task, or does not begin it."""
        return cast(QueueTask, json.loads(self._send("POST",
            f"/v1/queue/tasks/{int(number)}/cancel")))

    def queue_hold(self, number: int) -> QueueTask:
        """Does not begin a task."""
        return cast(QueueTask, json.loads(self._send("POST",
            f"/v1/queue/tasks/{int(number)}/hold")))

    def queue_log(self, number: int) -> str:
        """What a task printed, its last megabyte."""
        return self._send("GET", f"/v1/queue/tasks/{int(number)}/log").decode()

    def queue_release(self, number: int) -> QueueTask:
        """Lets a task begin that was held."""
        return cast(QueueTask, json.loads(self._send("POST",
            f"/v1/queue/tasks/{int(number)}/release")))

    def replan(self) -> Receipt:
        """Looks and plans now."""
        return cast(Receipt, json.loads(self._send("POST", "/v1/replan")))

    def rollback(self) -> Receipt:
        """Back to what was before the last change; from then on changes wait for approval."""
        return cast(Receipt, json.loads(self._send("POST", "/v1/rollback")))

    def series(self, metric: str, *, subject: str | None = None, from_ms: int | None = None, to_ms:
               int | None = None, most: int | None = None) -> Series:
        """One metric over time."""
        return cast(Series, json.loads(self._send("GET", "/v1/series", metric=metric,
            subject=subject, from_ms=from_ms, to_ms=to_ms, most=most)))

    def services(self) -> str:
        """The services file that is wanted, as text."""
        return self._send("GET", "/v1/services").decode()

    def set_services(self, services: Input) -> Receipt:
        """Replaces the services that are wanted."""
        return cast(Receipt, json.loads(self._send("PUT", "/v1/services", services,
            "application/yaml")))

    def state(self, *, whole: bool | None = None) -> AgentState:
        """What the agent knows and is doing; of a large node without the parts in `left_out`."""
        return cast(AgentState, json.loads(self._send("GET", "/v1/state", whole=whole)))

    def version(self) -> Version:
        """Which program this is."""
        return cast(Version, json.loads(self._send("GET", "/v1/version")))
