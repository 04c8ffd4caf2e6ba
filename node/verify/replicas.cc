#include "verify/replicas.h"

#include <fmt/format.h>

namespace partita::verify {

void check_replica(const plan::PlannedInstance& planned, const profile::TokenEngine& engine,
                   int units, const std::string& subject, Findings& findings) {
  if (planned.batch > engine.spec.sequences)
    findings.report("unknown_point", subject, engine.spec.sequences, planned.batch,
                    "requests at once, measured and planned");
  if (!may_be(engine))
    findings.report("unknown_point", subject, 0, 1,
                    fmt::format("engines '{}' that can be: by its points prompts, or tokens, cost "
                                "next to nothing, so that they do not show what these cost",
                                engine.name.configuration));
  if (planned.prefill_units != engine.prefill_units || planned.decode_units != engine.decode_units)
    findings.report("units", subject, engine.prefill_units, planned.prefill_units,
                    "SMs for prompts of what was measured, and as planned");
  if (planned.prefill_units + planned.decode_units > units)
    findings.report("units", subject, units, planned.prefill_units + planned.decode_units,
                    "SMs of the instance, and of prefill and decode together");
  if (planned.processes != 1)
    findings.report("processes", subject, planned.processes, 1, "an engine is one process");
}

void report_replica(const plan::Service& service, const plan::PlannedInstance& planned, Rps load,
                    const ReplicaVerdict& verdict, Findings& findings) {
  const std::string subject = "service " + service.name;
  const std::string replica = fmt::format("{} x {} at {:.4g} req/s and {} at once", planned.group,
                                          planned.profile, load.value, planned.batch);
  if (verdict.busy > 1)
    return findings.report(
        "overload", subject, 100 * verdict.busy, 100,
        fmt::format("percent of its time that {} needs at least, and has", replica));
  findings.report("slo", subject, 100 * (1 - verdict.late), service.percentile,
                  fmt::format("percent in time on {} ({:.2f} % miss TTFT, {:.2f} % TPOT, {:.2f} % "
                              "the whole), and wanted",
                              replica, 100 * verdict.late_ttft, 100 * verdict.late_tpot,
                              100 * verdict.late_whole));
}

}  // namespace partita::verify
