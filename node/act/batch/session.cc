#include "act/batch/session.h"

#include <algorithm>
#include <utility>

namespace partita::exec {
namespace {

Result<void> name_run(Session& session, const std::string& run, const SessionFlags& flags,
                      Files& files) {
  session.settings.paths.run = run;
  if (flags.log_dir.empty()) return {};
  session.settings.paths.log_dir = flags.log_dir + "/" + run;
  return files.make_directories(session.settings.paths.log_dir);
}

// There from a run's beginning until whoever asked for it has its end: see end_session.
std::string open_mark(const std::string& journal) { return journal + ".open"; }

Result<void> begin(Session& session, const Script& script, const Doors& doors,
                   const SessionFlags& flags) {
  if (flags.may_begin) {
    TRY(flags.may_begin());
  }
  TRY(name_run(session, flags.run, flags, doors.files));
  session.settings.origin = doors.clock.now_ns();
  if (session.settings.journal == nullptr) return {};
  Record run;
  run.run = session.settings.paths.run;
  run.script = fingerprint(script);
  run.origin = session.settings.origin;
  // In this order: a mark beside the journal of the run before would make this one that run's end.
  TRY(session.settings.journal->replace({record_text(run)}));
  return doors.files.write_atomic(open_mark(flags.journal), session.settings.paths.run + "\n");
}

Result<void> go_on(Session& session, const Script& script, const Doors& doors,
                   const std::vector<Record>& records, const SessionFlags& flags) {
  const RunPaths& paths = session.settings.paths;
  TRY(name_run(session, records.front().run, flags, doors.files));
  const Attempts attempts = flags.find ? flags.find(paths.run) : Attempts{};
  const Traces traces = follow(script, records, attempts, paths, doors.processes, doors.files);
  Result<Past> past = recover(script, records, traces, doors.driver);
  if (!past) {
    Error error = past.error();
    if (error.code == ErrorCode::bad_input) error.context = flags.journal;
    return failed(std::move(error));
  }
  session.past = *std::move(past);
  for (int t = 0; static_cast<std::size_t>(t) < session.past.tasks.size(); ++t) {
    const PastTask& task = session.past.tasks[static_cast<std::size_t>(t)];
    if (task.running) session.settings.adopted[*task.running] = {t, task.attempts, {}};
  }
  // The clock goes on, unless it began anew with the machine.
  session.settings.origin = records.front().origin;
  const std::int64_t now = doors.clock.now_ns();
  if (now - session.settings.origin < session.past.now)
    session.settings.origin = now - session.past.now;
  session.past.now = now - session.settings.origin;
  if (doors.files.exists(open_mark(flags.journal))) return {};
  return doors.files.write_atomic(open_mark(flags.journal), paths.run + "\n");
}

}  // namespace

Result<Session> open_session(const Script& script, const Doors& doors, const SessionFlags& flags) {
  Session session;
  if (!flags.journal.empty()) {
    RecordLog log = TRY(RecordLog::open(doors.files, flags.journal, kLogKind));
    session.settings.journal = std::make_shared<RecordLog>(std::move(log));
    const std::vector<Record> read =
        TRY(records_of(flags.journal, session.settings.journal->found()));
    const std::vector<Record>& records = read;
    session.open_mark = open_mark(flags.journal);
    if (records.empty() && doors.files.exists(session.open_mark))
      return bad_input(flags.journal + ":1",
                       "is empty, though a run has begun and not ended: what of it has finished "
                       "would run again. To begin anew remove it and " +
                           session.open_mark);
    const bool over = records.empty() || (records.back().kind == Record::Kind::done &&
                                          !doors.files.exists(session.open_mark));
    if (!over || (flags.resume && !records.empty())) {
      TRY(go_on(session, script, doors, records, flags));
      return session;
    }
  }
  TRY(begin(session, script, doors, flags));
  return session;
}

Result<void> close_session(const Session& session, const RunReport& report, const Doors& doors) {
  if (session.settings.journal == nullptr || report.interrupted) return {};
  Record done;
  done.kind = Record::Kind::done;
  done.time = doors.clock.now_ns() - session.settings.origin;
  return session.settings.journal->append({record_text(done)});
}

Result<void> end_session(const Session& session, const RunReport& report, Files& files) {
  if (session.open_mark.empty() || report.interrupted) return {};
  return files.remove(session.open_mark);
}

}  // namespace partita::exec
