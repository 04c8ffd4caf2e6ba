"""The functions of the package. Options are those of the commands, with _ for -."""

import os
from collections.abc import Sequence
from typing import Any, cast

from partita._library import Infeasible, call
from partita._reading import Input, Inputs
from partita.documents import BatchSchedule, ServingPlan, ServingReport, Verdict


def _problem(services: Input, profiles: Input | None, fleet: Input | None) -> Inputs:
    inputs = Inputs()
    inputs.add("services", services, ".yaml")
    inputs.add("profiles", profiles, ".csv")
    inputs.add("fleet", fleet, ".yaml")
    return inputs


def _answer(function: str, inputs: Inputs) -> Any:
    document = call(function, inputs.options, inputs.files)
    if isinstance(document, dict) and document.get("kind") == "Refusal":
        raise Infeasible(document["reasons"])
    return document


def plan(*, services: Input, profiles: Input | None = None, gpu: str | None = None,
         fleet: Input | None = None, planner: str | None = None, slo_rule: str | None = None,
         dispatch: str | None = None, max_processes: int | None = None,
         max_gpus: int | None = None, survive: int | None = None, at: str | None = None,
         node_budget: int | None = None,
         catalogue: "os.PathLike[str] | None" = None) -> ServingPlan:
    """Plans which service runs on which slice of which GPU. The judge has let the plan pass.

    Give `profiles` and `gpu`, or a `fleet`. Infeasible where there is no such plan."""
    inputs = _problem(services, profiles, fleet)
    inputs.add("catalogue", catalogue, "")
    inputs.set(gpu=gpu, planner=planner, slo_rule=slo_rule, dispatch=dispatch,
               max_processes=max_processes, max_gpus=max_gpus, survive=survive, at=at,
               node_budget=node_budget)
    return cast(ServingPlan, _answer("plan", inputs))


def verify(plan: Input, *, services: Input, profiles: Input | None = None,
           fleet: Input | None = None, slo_rule: str | None = None,
           max_processes: int | None = None, survive: int | None = None, at: str | None = None,
           catalogue: "os.PathLike[str] | None" = None) -> Verdict:
    """Checks a plan from any tool: `ok`, and what is violated."""
    inputs = _problem(services, profiles, fleet)
    inputs.add("plan", plan, ".json")
    inputs.add("catalogue", catalogue, "")
    inputs.set(slo_rule=slo_rule, max_processes=max_processes, survive=survive, at=at)
    return cast(Verdict, _answer("verify", inputs))


def simulate(plan: Input, *, services: Input, profiles: Input | None = None,
             fleet: Input | None = None, duration_s: float | None = None, seed: int | None = None,
             arrivals: Input | None = None, load: float | None = None,
             what_if: Sequence[str] | None = None, lateness_ms: float | None = None,
             full_batches: bool | None = None, slo_rule: str | None = None,
             max_processes: int | None = None, survive: int | None = None, at: str | None = None,
             catalogue: "os.PathLike[str] | None" = None) -> ServingReport:
    """Plays traffic against a plan. The same seed gives the same report. A plan that the judge
    refuses is not played: Infeasible.

    `arrivals` is poisson, uniform, gamma:CV or the path of a CSV."""
    inputs = _problem(services, profiles, fleet)
    inputs.add("plan", plan, ".json")
    inputs.add("catalogue", catalogue, "")
    how = os.fspath(arrivals) if isinstance(arrivals, os.PathLike) else arrivals
    inputs.set(duration_s=duration_s, seed=seed, arrivals=how, load=load, lateness_ms=lateness_ms,
               what_if=None if what_if is None else list(what_if), full_batches=full_batches,
               slo_rule=slo_rule, max_processes=max_processes, survive=survive, at=at)
    document = _answer("simulate", inputs)
    if document["kind"] == "Verdict":
        raise Infeasible(document["violations"])
    return cast(ServingReport, document)


def schedule(*, tasks: Input, gpu: str, gpus: int | None = None, scheduler: str | None = None,
             seed: int | None = None, budget: int | None = None,
             catalogue: "os.PathLike[str] | None" = None) -> BatchSchedule:
    """Schedules a queue of jobs: which instances to create and destroy when, what runs on them."""
    inputs = Inputs()
    inputs.add("tasks", tasks, ".csv")
    inputs.add("catalogue", catalogue, "")
    inputs.set(gpu=gpu, gpus=gpus, scheduler=scheduler, seed=seed, budget=budget)
    return cast(BatchSchedule, _answer("schedule", inputs))


def verify_schedule(schedule: Input, *, tasks: Input,
                    catalogue: "os.PathLike[str] | None" = None) -> Verdict:
    """Checks a schedule from any tool: `ok`, and what is violated."""
    inputs = Inputs()
    inputs.add("schedule", schedule, ".json")
    inputs.add("tasks", tasks, ".csv")
    inputs.add("catalogue", catalogue, "")
    return cast(Verdict, _answer("verify_schedule", inputs))


def gpus(*, catalogue: "os.PathLike[str] | None" = None) -> list[str]:
    """The names of the GPU models of the catalogue."""
    inputs = Inputs()
    inputs.add("catalogue", catalogue, "")
    return cast(list[str], _answer("gpus", inputs)["gpus"])


def schema(kind: str | None = None) -> Any:
    """The JSON Schema of a kind of document; without a kind, the kinds that there are."""
    inputs = Inputs()
    inputs.set(kind=kind)
    document = _answer("schema", inputs)
    return document if kind is not None else document["kinds"]
