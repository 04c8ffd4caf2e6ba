"""Decisions of Partita: documents in, documents out.

    import partita
    plan = partita.plan(services=pathlib.Path("services.yaml"),
                        profiles=pathlib.Path("profiles.csv"), gpu="A100-80GB")
    verdict = partita.verify(plan, services=..., profiles=...)

An input is a path (pathlib.Path) to a file or folder, a text, or a document (a dict). What comes
out is a dict with a type of its own (partita.documents), the same as the command of that name
prints with --format json. Wrong inputs raise BadInput, whose `context` names FILE:LINE; a problem
without solution raises Infeasible, whose `reasons` say why. All functions are pure and may be
called from several threads; see docs/python.md.

    with an agent on this node or another:

    agent = partita.Client("https://node1:8123", token=...)
    print(agent.state()["doing"])

A Client has a method per call of the agent's API and needs no library. run_graph() runs a task
graph on arrays of this process, by the program `partita`."""

from partita._client import ApiError, Client, NoAnswer
from partita._functions import (gpus, plan, schedule, schema, simulate, verify, verify_schedule)
from partita._graph import KernelFault, run_graph
from partita._library import BadInput, Infeasible, PartitaError, version
from partita._reading import read, write
from partita.agent_documents import (AgentBatch, AgentBatches, AgentChange, AgentState, Health,
                                     History, Latest, Lease, Leases, NodeState, Receipt, Series,
                                     Version)
from partita.documents import (BatchSchedule, GraphRun, Refusal, ServingPlan, ServingReport,
                               Verdict)

__all__ = [
    "AgentBatch", "AgentBatches", "AgentChange", "AgentState", "ApiError", "BadInput",
    "BatchSchedule", "Client", "GraphRun", "Health", "History", "Infeasible", "KernelFault",
    "Latest", "NoAnswer", "Lease", "Leases", "NodeState", "PartitaError", "Receipt", "Refusal",
    "Series", "ServingPlan", "ServingReport", "Verdict", "Version", "gpus", "plan", "read",
    "run_graph", "schedule", "schema", "simulate", "verify", "verify_schedule", "version", "write",
]
