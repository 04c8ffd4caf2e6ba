"""The demo as a script, cell by cell: plan services, check and simulate the plan, see what a judge
says to a broken one, ask what more traffic would do, schedule a batch, ask an agent.

    PARTITA_LIBRARY=build/release/libpartita.so.0 PYTHONPATH=build/release/python \\
      python3 python/examples/demo.py

The words behind it: the data folder, a file for the plan, and an agent's place, as in
`demo.py data plan.json unix:/run/partita/api.sock`.
"""

# %% What there is: services, what models were measured to do, jobs. Run it in the repository, or
# name its data folder.
import copy
import pathlib
import sys

import partita

data = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "data")
services = data / "scenarios/s1.yaml"
profiles = data / "profiles/a100-80gb.json"
print(f"partita {partita.version()}, {len(partita.gpus())} GPU models")

# %% A plan: a dict that is typed.
plan = partita.plan(services=services, profiles=profiles, gpu="A100-80GB")
objective = plan["objective"]
print(f"\n{len(plan['services'])} services on {objective['gpus']} GPUs, "
      f"lower bound {objective['lower_bound_gpus']}")
for gpu in plan["gpus"]:
    print(f"  GPU {gpu['index']}:", ", ".join(f"{one['service']} {one['profile']}"
                                            for one in gpu["instances"]))

# %% The judge shares no code with the planner.
assert partita.verify(plan, services=services, profiles=profiles)["ok"]
broken = copy.deepcopy(plan)
broken["gpus"][0]["instances"].pop()
verdict = partita.verify(broken, services=services, profiles=profiles)
print(f"\nwithout one instance: {len(verdict['violations'])} violations")
for violation in verdict["violations"]:
    print("  ", violation["subject"], violation["constraint"], violation["detail"])

# %% Traffic, simulated; the same seed gives the same report.
report = partita.simulate(plan, services=services, profiles=profiles, duration_s=20, seed=1)
more = partita.simulate(plan, services=services, profiles=profiles, duration_s=20, seed=1, load=1.3)
print("\nservice         in time   at 1.3 x the load")
for one, other in zip(report["services"], more["services"]):
    print(f"  {one['name']:12} {one['slo_attainment']:8.2%}   {other['slo_attainment']:8.2%}")

# %% What there is no plan for says why.
try:
    partita.plan(services=services, profiles=profiles, gpu="A100-80GB", max_gpus=1)
except partita.Infeasible as refused:
    print(f"\non one GPU: {refused}")

# %% A queue of jobs.
tasks = data / "batches/rodinia-a30.csv"
schedule = partita.schedule(tasks=tasks, gpu="A30-24GB")
assert partita.verify_schedule(schedule, tasks=tasks)["ok"]
print(f"\n{len(schedule['tasks'])} tasks end after {schedule['makespan_s']:.2f} s, "
      f"lower bound {schedule['lower_bound_s']:.2f} s")

# %% A document is a file that every command reads.
if len(sys.argv) > 2:
    partita.write(sys.argv[2], plan)
    assert partita.read(sys.argv[2], "ServingPlan") == plan

# %% An agent, where there is one: what it does, what it would do for other services.
if len(sys.argv) > 3:
    agent = partita.Client(sys.argv[3])
    state = agent.state()
    print(f"\nthe agent of {state['node']} ({state['mode']}): {state['doing']}")
    for service in state["services"]:
        print(f"  {service['name']:12} planned for {service['planned_rps']:g} req/s, "
              f"{service['segments']} instances")
    change = agent.preview(agent.services())
    print("the same services, planned anew:", *change["explanation"][:3], sep="\n  ")
    for event in agent.history(most=3, documents=False)["events"]:
        print(f"  {event['kind']} by {event['user']}: {event['cause'] or event['detail']}")
    newest = next(agent.events())  # and then whenever it has changed
    print(f"version {newest['version']} of its state")
