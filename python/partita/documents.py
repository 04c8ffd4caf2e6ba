"""The documents as types: what their JSON Schemas say. Written by
tools/make_python_types.py, and compared with the library by a test."""

from typing import Any, Literal, NotRequired, TypedDict


class BatchReportMakespanS(TypedDict):
    # of the schedule
    planned: float
    # over the runs
    mean: float
    # half of the runs end within
    p50: float
    # 95 % of the runs end within
    p95: float
    # over the runs
    worst: float


class BatchReportTasks(TypedDict):
    # its name
    task: str
    # of the schedule
    planned_end_s: float
    # over the runs
    mean_end_s: float
    # should have ended by then
    deadline_s: NotRequired[float]
    # of the runs that end it later
    missed: NotRequired[float]


class BatchReport(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["BatchReport"]
    # who made the schedule
    scheduler: str
    # how often it ran
    runs: int
    # relative deviation of task times
    spread: float
    # the same of creates and destroys
    reconfiguration_spread: float
    # planned, and over the runs
    makespan_s: BatchReportMakespanS
    # in the order of the batch
    tasks: list[BatchReportTasks]
    # that were simulated
    events: int
    # of the simulator
    events_per_second: float
    # of the randomness
    seed: int
    # over all events, equal exactly when the run was
    log_hash: str


class BatchScheduleTasks(TypedDict):
    # its name
    task: str
    # counted from 0
    gpu: int
    # MIG profile of its instance
    profile: str
    # first memory slice of its instance
    start: int
    # from the start of the batch
    begin_s: float
    # from the start of the batch
    end_s: float


class BatchScheduleReconfigurations(TypedDict):
    # counted from 0
    gpu: int
    # what happens to the instance
    op: Literal["create", "destroy"]
    # MIG profile of the instance
    profile: str
    # first memory slice of the instance
    start: int
    # from the start of the batch
    begin_s: float
    # from the start of the batch
    end_s: float


class BatchScheduleLate(TypedDict):
    # its name
    task: str
    # should have ended by then
    deadline_s: float
    # ends then
    end_s: float


class BatchScheduleStats(TypedDict):
    # CPU time of the scheduler alone
    scheduling_ms: NotRequired[float]
    # search nodes and evaluated neighbours
    nodes: NotRequired[int]


class BatchScheduleRobustness(TypedDict):
    # of the task times, as a share
    spread: float
    # that were simulated
    runs: int
    # of the simulation
    seed: int
    # mean over the runs
    expected_makespan_s: float
    # 95 % of the runs end within
    p95_makespan_s: float


class BatchSchedule(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["BatchSchedule"]
    # catalogue name of the (first) GPU's model
    gpu_model: str
    # how many GPUs
    gpus: int
    # one name per GPU, where they differ
    gpu_models: NotRequired[list[str]]
    # who creates and destroys instances, one at a time
    reconfigurer: NotRequired[Literal["node", "gpu"]]
    # neighbouring GPUs that share a reconfigurer
    gpus_per_node: NotRequired[int]
    # the planner that made it
    scheduler: NotRequired[str]
    # of the problem that it solves
    problem_digest: NotRequired[str]
    # the end of the last task; missing: counted
    makespan_s: NotRequired[float]
    # no schedule is shorter; 0: not stated
    lower_bound_s: NotRequired[float]
    # proven that no schedule is shorter
    optimal: NotRequired[bool]
    # which task runs where and when
    tasks: list[BatchScheduleTasks]
    # instances that are created and destroyed
    reconfigurations: NotRequired[list[BatchScheduleReconfigurations]]
    # tasks that end after their deadline
    late: NotRequired[list[BatchScheduleLate]]
    # what scheduling took
    stats: NotRequired[BatchScheduleStats]
    # sentences that explain the plan
    explanation: NotRequired[list[str]]
    # what choosing it was based on
    robustness: NotRequired[BatchScheduleRobustness]


class RefusalReasons(TypedDict):
    # a fixed word
    constraint: str
    # what it is about
    subject: str
    # null: unbounded
    have: float | None
    # null: unbounded
    need: float | None
    # a sentence for people; may be empty
    detail: str


class Refusal(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["Refusal"]
    # each sufficient
    reasons: list[RefusalReasons]
    # bound: there is none; none: the search gave up, there may be one
    proof: NotRequired[Literal["none", "bound"]]


class ServingPlanObjective(TypedDict):
    # in use
    gpus: int
    # compute slices in use
    gpcs: int
    # summed price; 0: not stated
    cost: NotRequired[float]
    # no plan needs fewer; 0: not stated
    lower_bound_gpus: int
    # with that many GPUs; 0: not stated
    lower_bound_gpcs: NotRequired[int]
    # 0: not stated
    lower_bound_cost: NotRequired[float]
    # the bounds are met, so no plan is better
    optimal: bool
    # what the plan has least of, where that was asked for
    least: NotRequired[Literal["gpus", "cost", "energy"]]
    # expected, of all GPUs at the services' rates; with least energy
    watts: NotRequired[float]
    # no plan takes less; with least energy
    lower_bound_watts: NotRequired[float]


class ServingPlanGpusInstances(TypedDict):
    # MIG profile name on that GPU model
    profile: str
    # first memory slice, as NVML counts placements
    start: int
    # name of the service
    service: str
    # largest batch
    batch: int
    # MPS processes
    processes: int
    # the most that the instance may carry under the SLO rule
    throughput_rps: float
    # execution of a full batch
    latency_ms: float
    # by a law, not measured
    predicted: NotRequired[bool]
    # the GPU models of the laws that predicted it
    learned_on: NotRequired[str]
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
    # so many GPUs serve together, which follow one another; missing: 1
    group: NotRequired[int]
    # SMs that only do that, beside the others; missing: all do both
    prefill_units: NotRequired[int]
    # SMs that only do that, beside the others; missing: all do both
    decode_units: NotRequired[int]
    # models at once, of a set of them
    held: NotRequired[int]
    # MPS share of a whole GPU without MIG; missing or 0: a MIG instance
    share_percent: NotRequired[float]


class ServingPlanGpus(TypedDict):
    # counts from 0
    index: int
    # catalogue name; missing: the plan's gpu_model
    model: NotRequired[str]
    # by start
    instances: list[ServingPlanGpusInstances]


class ServingPlanServicesArrivals(TypedDict):
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


class ServingPlanServicesRates(TypedDict):
    # of the day
    minute: int
    # from then on
    rate_rps: float


class ServingPlanServicesTokensIn(TypedDict):
    # of all requests
    mean: NotRequired[float]
    # lognormal: the coefficient of variation; missing: all have the mean
    cv: NotRequired[float]
    # one of them, each as likely as the others
    listed: NotRequired[list[int]]


class ServingPlanServicesTokensOut(TypedDict):
    # of all requests
    mean: NotRequired[float]
    # lognormal: the coefficient of variation; missing: all have the mean
    cv: NotRequired[float]
    # one of them, each as likely as the others
    listed: NotRequired[list[int]]


ServingPlanServicesTokens = TypedDict("ServingPlanServicesTokens", {
    # to the first token; missing: any time
    "ttft_ms": NotRequired[float],
    # per token after it, on average over an answer; missing: any time
    "tpot_ms": NotRequired[float],
    # tokens of prompts
    "in": NotRequired[ServingPlanServicesTokensIn],
    # tokens of answers
    "out": NotRequired[ServingPlanServicesTokensOut],
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


class ServingPlanServicesModelsList(TypedDict):
    # by which requests ask for it
    name: str
    # of the requests, in proportion; missing: 1
    weight: NotRequired[float]


class ServingPlanServicesModels(TypedDict):
    # by weight
    list: list[ServingPlanServicesModelsList]
    # of one that is loaded
    memory_mib: float
    # of the process with none; missing: 0
    reserve_mib: NotRequired[float]
    # to load one, at most
    load_ms: float
    # of requests whose model is not loaded; missing: the SLO alone is promised
    cold_ms: NotRequired[float]


class ServingPlanServicesPipelineSteps(TypedDict):
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


class ServingPlanServicesPipeline(TypedDict):
    # models, each behind those whose outputs it reads
    steps: list[ServingPlanServicesPipelineSteps]


class ServingPlanServicesCache(TypedDict):
    # of a gateway, for the answers
    memory_mib: float
    # an answer is good; missing: without end
    ttl_s: NotRequired[float]
    # by all clients; missing: each finds its own
    shared: NotRequired[bool]


class ServingPlanServicesOverload(TypedDict):
    # times the service's rate
    factor: float
    # share of the requests then; those refused at once are not
    in_time: float


class ServingPlanServicesOutlook(TypedDict):
    # produced at its rate
    tokens_per_s: float
    # that its instances take, by compute slices
    gpus: float
    # produced, by the prices of GPUs per hour; missing: no prices are known
    cost_per_million_tokens: NotRequired[float]
    # most of a replica's KV cache in use at a time, as simulated
    kv_used: float
    # what keeps its replicas from carrying more: a promise, the KV cache, or that no more requests
    # at once were measured
    limit: Literal["ttft", "tpot", "e2e", "kv", "sequences"]


class ServingPlanServicesModelsOutlook(TypedDict):
    # models, of the instance that holds fewest
    held: int
    # of the requests, whose model is not loaded
    cold_share: float
    # that these take, at the percentile
    cold_ms: float


class ServingPlanServices(TypedDict):
    # of the service
    name: str
    # that it runs; missing: not known
    model: NotRequired[str]
    # asked for; 0: not known
    rate_rps: float
    # asked for; 0: not known
    slo_ms: float
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
    arrivals: NotRequired[ServingPlanServicesArrivals]
    # over the day; missing: the same all day
    rates: NotRequired[list[ServingPlanServicesRates]]
    # of a language model, which answers token by token; missing: it is none
    tokens: NotRequired[ServingPlanServicesTokens]
    # many that share its instances; missing: it is one
    models: NotRequired[ServingPlanServicesModels]
    # services that its requests go through; missing: it is none
    pipeline: NotRequired[ServingPlanServicesPipeline]
    # only pipelines ask for it; its SLO is a share of theirs
    member: NotRequired[bool]
    # of answers for who asks the same again; missing: the service has none
    cache: NotRequired[ServingPlanServicesCache]
    # where not all have room the lower ones get less; missing: 0
    priority: NotRequired[int]
    # the sum over its instances
    planned_rps: float
    # the worst, of the SLO rule's kind; null: unbounded
    predicted_latency_ms: float | None
    # an instance of it is predicted, not measured
    predicted: NotRequired[bool]
    # what was simulated of more than its rate; missing: nothing
    overload: NotRequired[list[ServingPlanServicesOverload]]
    # of a language model, as simulated at its rate
    outlook: NotRequired[ServingPlanServicesOutlook]
    # of many models that share its instances, as computed at its rate
    models_outlook: NotRequired[ServingPlanServicesModelsOutlook]
    # asked for, where the plan is for a part of it: rate_rps
    wanted_rps: NotRequired[float]


class ServingPlanStats(TypedDict):
    # CPU time of the planner alone
    planning_ms: float
    # CPU time of turning measured points into rates
    capacity_ms: NotRequired[float]
    # search nodes
    nodes: NotRequired[int]


class ServingPlanIncrementalCurve(TypedDict):
    # so many GPUs
    gpus: int
    # their summed price
    cost: float
    # fewest instances to create that were found
    moves: int
    # no plan creates fewer
    lower_bound_moves: int
    # moves is that bound
    proven: bool


class ServingPlanIncremental(TypedDict):
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
    # what fewer moves cost in GPUs
    curve: list[ServingPlanIncrementalCurve]


class ServingPlanAdviceOptions(TypedDict):
    # with this SLO instead
    slo_ms: float
    # so many GPUs do
    gpus: int
    # with this one instead
    percentile: NotRequired[float]


class ServingPlanAdvice(TypedDict):
    # whose SLO is near its fastest batch
    service: str
    # asked for
    slo_ms: float
    # on any instance; TTFT of a request alone
    fastest_batch_ms: float
    # that such a batch meets under the SLO rule
    least_slo_ms: float
    # of this plan
    gpus: int
    # plans with a longer SLO of this service
    options: list[ServingPlanAdviceOptions]
    # what is easier, the SLO when missing; `ttft`: times are to the first token
    eased: NotRequired[Literal["slo", "ttft", "percentile"]]
    # asked for
    percentile: NotRequired[float]
    # the fastest is a request alone, not a batch
    language: NotRequired[bool]


class ServingPlan(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["ServingPlan"]
    # catalogue name of the (first) GPU model
    gpu_model: str
    # the planner that made it
    planner: NotRequired[str]
    # when a latency objective holds: pooled, queueing or execution:F
    slo_rule: NotRequired[str]
    # the server that the promise is made for
    dispatch: NotRequired[Literal["pooled", "paced", "shared-queue", "per-process"]]
    # any so many GPUs may be lost and every SLO is kept; missing: 0
    survive: NotRequired[int]
    # of the problem that it solves
    problem_digest: NotRequired[str]
    # missing: counted
    objective: NotRequired[ServingPlanObjective]
    # with the instances on them
    gpus: list[ServingPlanGpus]
    # what was asked for, and what is planned
    services: list[ServingPlanServices]
    # what planning took
    stats: NotRequired[ServingPlanStats]
    # sentences that explain the plan
    explanation: NotRequired[list[str]]
    # against what ran before
    incremental: NotRequired[ServingPlanIncremental]
    # what a longer SLO would save, found by planning again
    advice: NotRequired[list[ServingPlanAdvice]]


class ServingReportServicesTokens(TypedDict):
    # to the first token
    ttft_p50_ms: float
    # to the first token
    ttft_p99_ms: float
    # per token after it
    tpot_p50_ms: float
    # per token after it
    tpot_p99_ms: float
    # produced
    tokens_per_s: float


class ServingReportServicesModels(TypedDict):
    # requests whose model was loaded first
    cold: int
    # share of these, by what is promised
    cold_in_time: float
    # of their latency
    cold_p50_ms: float
    # of their latency
    cold_p99_ms: float


class ServingReportServices(TypedDict):
    # of the service
    name: str
    # that was played; missing: a trace's
    rate_rps: NotRequired[float]
    # requests
    offered: int
    # requests
    completed: int
    # of the offered ones, at once, as the gateway would
    refused: NotRequired[int]
    # share of the offered ones that completed within the SLO
    slo_attainment: float
    # of the latency; 0: nothing completed
    p50_ms: float
    # of the latency
    p95_ms: float
    # of the latency
    p99_ms: float
    # of a language model, whose latency is that of whole answers
    tokens: NotRequired[ServingReportServicesTokens]
    # of many models that share its instances
    models: NotRequired[ServingReportServicesModels]


class ServingReportGpus(TypedDict):
    # idle share of the compute inside instances (ParvaGPU, Eq. 3)
    internal_slack: float
    # share of the used GPUs' compute slices that belong to no instance
    external_fragmentation: float


class ServingReport(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["ServingReport"]
    # share of the declared rates
    load: NotRequired[float]
    # what became of their requests
    services: list[ServingReportServices]
    # how well they were used
    gpus: ServingReportGpus
    # that were simulated
    events: int
    # of the simulator
    events_per_second: float
    # of the randomness
    seed: int
    # over all events, equal exactly when the run was
    log_hash: str


class VerdictViolations(TypedDict):
    # a fixed word
    constraint: str
    # what it is about
    subject: str
    # null: unbounded
    have: float | None
    # null: unbounded
    need: float | None
    # a sentence for people; may be empty
    detail: str


class Verdict(TypedDict):
    api_version: Literal["partita/v1"]
    kind: Literal["Verdict"]
    # no violation
    ok: bool
    # all that were found
    violations: list[VerdictViolations]
