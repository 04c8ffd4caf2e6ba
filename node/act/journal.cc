#include "act/journal.h"

#include <fmt/format.h>

#include <algorithm>

#include "act/change_forms.h"
#include "base/form.h"

namespace partita::actuate {
namespace {

constexpr const char* kKind = "changes";

constexpr Range kSmall{.high = 1e9};

void describe_instance(Form& f, WantedInstance& one) {
  f.text("profile", one.profile, "catalogue name");
  f.integer("start", one.start, kSmall, "first memory slice");
  Segment& segment = one.segment;
  if (!f.given("service", !segment.service.empty())) return;
  f.text("service", segment.service, "that runs there; missing: none");
  f.integer("batch", segment.batch, kSmall, "largest batch");
  f.integer("processes", segment.processes, kSmall, "that share it");
  f.number("throughput_rps", segment.throughput_rps, kNotNegative, "planned to carry at most");
  describe_shares(f, segment);
}

void describe_gpu(Form& f, WantedGpu& gpu) {
  f.text("model", gpu.model, "catalogue name");
  f.note("uuid", gpu.uuid, "exactly this GPU; empty: any of the model");
  f.optional(gpu.index >= 0).integer("index", gpu.index, kSmall, "that is meant");
  f.optional(gpu.group >= 0).integer("group", gpu.group, kSmall, "of whole GPUs that work as one");
  f.list("instances", gpu.instances, describe_instance, {}, "that it shall have");
}

void describe_begin(Form& f, BeginRecord& one) {
  f.whole("transaction", one.transaction, kSmall, "its number");
  f.boolean("rollback", one.rollback, "it undoes another one");
  f.notes("gpu_uuids", one.gpu_uuids, {}, "per wanted GPU of the target");
  f.list("target", one.target.gpus, describe_gpu, {}, "how the node shall be");
  f.list("source", one.source.gpus, describe_gpu, {}, "how it was");
  for (const auto& [key, wanted] :
       {std::pair("target_services", &one.target), std::pair("source_services", &one.source)})
    f.optional(!wanted->services.empty())
        .list(key, wanted->services, describe_kept_terms, {}, "older journals have none");
}

void describe_intent(Form& f, IntentRecord& one) { describe_place(f, one.place); }

void describe_made(Form& f, MadeRecord& one) {
  describe_place(f, one.place);
  f.note("uuid", one.uuid, "of the MIG device");
}

void describe_gone(Form& f, GoneRecord& one) { f.text("uuid", one.uuid, "of the MIG device"); }

void describe_end(Form& f, EndRecord& one) {
  f.whole("transaction", one.transaction, kSmall, "its number");
  f.text("outcome", one.outcome, "done or failed");
  f.note("reason", one.reason, "why it failed");
}

void describe_record(Form& f, Record& record) {
  form::variant(f, "record", record, {"begin", "intent", "made", "gone", "end"}, "what it tells",
                describe_begin, describe_intent, describe_made, describe_gone, describe_end);
}

Error damaged(Error error) {
  error.message +=
      "; nothing was changed. Without the journal Partita cannot tell its instances from those of "
      "others: move the file away to start a new one";
  return error;
}

// The record of a line whose checksum is right.
Result<Record> read_record(const std::string& file, const LogRecord& line) {
  Result<Record> record = read_form<Record>(file, line.text, describe_record);
  if (!record) return bad_input("", record.error().message);
  return record;
}

std::string body_of(const Record& record) { return line_form(record, describe_record); }

// The fewest records that amount to the same.
std::vector<std::string> bodies_of(const JournalState& state) {
  std::vector<std::string> bodies;
  for (const std::string& uuid : state.owned) bodies.push_back(body_of(MadeRecord{{}, uuid}));
  for (const Place& place : state.intended) bodies.push_back(body_of(IntentRecord{place}));
  if (state.last) bodies.push_back(body_of(*state.last));
  if (state.end) bodies.push_back(body_of(*state.end));
  return bodies;
}

struct Follow {
  JournalState& state;
  void operator()(const BeginRecord& one) const {
    state.transactions = one.transaction;
    state.last = one;
    state.end.reset();
  }
  void operator()(const IntentRecord& one) const {
    std::erase(state.intended, one.place);
    state.intended.push_back(one.place);
  }
  void operator()(const MadeRecord& one) const {
    std::erase(state.intended, one.place);
    std::erase(state.owned, one.uuid);
    if (!one.uuid.empty()) state.owned.push_back(one.uuid);
  }
  void operator()(const GoneRecord& one) const { std::erase(state.owned, one.uuid); }
  void operator()(const EndRecord& one) const { state.end = one; }
};

Result<JournalState> state_of(const std::string& file, const ParsedLog& log) {
  JournalState state;
  for (const LogRecord& line : log.records) {
    const Result<Record> record = read_record(file, line);
    const std::string where = fmt::format("{}:{}", file, line.line);
    if (!record) return failed(damaged({ErrorCode::bad_input, record.error().message, where}));
    std::visit(Follow{state}, *record);
  }
  return state;
}

}  // namespace

void follow(JournalState& state, const Record& record) { std::visit(Follow{state}, record); }

std::string record_line(const Record& record) { return log_line(body_of(record)); }

std::string journal_text(const JournalState& state) {
  std::string text = log_header(kKind);
  for (const std::string& body : bodies_of(state)) text += log_line(body);
  return text;
}

Result<ParsedJournal> parse_journal(const std::string& file, std::string_view text) {
  const Result<ParsedLog> log = parse_log(file, kKind, text);
  if (!log) return failed(damaged(log.error()));
  JournalState state = TRY(state_of(file, *log));
  return ParsedJournal{std::move(state), log->valid_bytes};
}

Result<JournalState> read_journal(Files& files, const std::string& path) {
  if (!files.exists(path)) return JournalState{};
  const std::string text = TRY(files.read(path));
  ParsedJournal parsed = TRY(parse_journal(path, text));
  return std::move(parsed.state);
}

Result<Journal> Journal::open(Files& files, const std::string& path) {
  Result<RecordLog> log = RecordLog::open(files, path, kKind);
  if (!log)
    return failed(log.error().code == ErrorCode::bad_input ? damaged(log.error()) : log.error());
  JournalState state = TRY(state_of(path, log->found()));
  return Journal(*std::move(log), std::move(state));
}

Result<void> Journal::append(const Record& record) {
  const bool full = std::holds_alternative<BeginRecord>(record) && log_.bytes() > kMaxJournalBytes;
  if (full) {
    TRY(log_.replace(bodies_of(state_)));
  }
  const bool intent = std::holds_alternative<IntentRecord>(record);
  const std::vector<std::string> body = {body_of(record)};
  TRY(intent ? log_.announce(body) : log_.append(body));
  std::visit(Follow{state_}, record);
  return {};
}

}  // namespace partita::actuate
