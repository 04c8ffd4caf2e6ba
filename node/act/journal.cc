#include "act/journal.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/document.h"
#include "base/fields.h"
#include "base/json_writer.h"

namespace partita::actuate {
namespace {

constexpr const char* kKind = "changes";

void write_journal_place(JsonWriter& out, const Place& place) {
  out.raw(R"("gpu": )").number(long{place.gpu}).raw(R"(, "gpu_uuid": )").string(place.gpu_uuid);
  out.raw(R"(, "profile": )").string(place.profile);
  out.raw(R"(, "start": )").number(long{place.start});
}

// Items on one line.
template <class Items, class Write>
void write_list(JsonWriter& out, const Items& items, Write write) {
  out.raw("[");
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.raw(", ");
    write(items[i]);
  }
  out.raw("]");
}

void write_wanted(JsonWriter& out, const Wanted& wanted) {
  write_list(out, wanted.gpus, [&](const WantedGpu& gpu) {
    out.raw(R"({"model": )").string(gpu.model).raw(R"(, "uuid": )").string(gpu.uuid);
    if (gpu.index >= 0) out.raw(R"(, "index": )").number(long{gpu.index});
    out.raw(R"(, "instances": )");
    write_list(out, gpu.instances, [&](const WantedInstance& one) {
      out.raw(R"({"profile": )").string(one.profile).raw(R"(, "start": )").number(long{one.start});
      if (!one.segment.service.empty()) {
        out.raw(R"(, "service": )").string(one.segment.service);
        out.raw(R"(, "batch": )").number(long{one.segment.batch});
        out.raw(R"(, "processes": )").number(long{one.segment.processes});
        out.raw(R"(, "throughput_rps": )").number(one.segment.throughput_rps);
      }
      out.raw("}");
    });
    out.raw("}");
  });
}

// Beside the GPUs; older journals have none.
void write_services(JsonWriter& out, const char* key, const Wanted& wanted) {
  if (wanted.services.empty()) return;
  out.raw(fmt::format(R"(, "{}": )", key));
  write_list(out, wanted.services, [&](const plan::Terms& one) {
    std::string text = write_form(one, describe_kept_terms);
    text.pop_back();  // its line break
    out.raw(text);
  });
}

struct BodyWriter {
  JsonWriter& out;
  void operator()(const BeginRecord& one) const {
    out.raw(R"({"record": "begin", "transaction": )").number(one.transaction);
    out.raw(R"(, "rollback": )").boolean(one.rollback);
    out.raw(R"(, "gpu_uuids": )");
    write_list(out, one.gpu_uuids, [&](const std::string& uuid) { out.string(uuid); });
    out.raw(R"(, "target": )");
    write_wanted(out, one.target);
    out.raw(R"(, "source": )");
    write_wanted(out, one.source);
    write_services(out, "target_services", one.target);
    write_services(out, "source_services", one.source);
    out.raw("}");
  }
  void operator()(const IntentRecord& one) const {
    out.raw(R"({"record": "intent", )");
    write_journal_place(out, one.place);
    out.raw("}");
  }
  void operator()(const MadeRecord& one) const {
    out.raw(R"({"record": "made", )");
    write_journal_place(out, one.place);
    out.raw(R"(, "uuid": )").string(one.uuid).raw("}");
  }
  void operator()(const GoneRecord& one) const {
    out.raw(R"({"record": "gone", "uuid": )").string(one.uuid).raw("}");
  }
  void operator()(const EndRecord& one) const {
    out.raw(R"({"record": "end", "transaction": )").number(one.transaction);
    out.raw(R"(, "outcome": )").string(one.outcome);
    out.raw(R"(, "reason": )").string(one.reason).raw("}");
  }
};

constexpr Range kSmall{.low = 0, .high = 1e9};

// A string that may be empty.
std::string any_text(Fields& fields, std::string_view key) {
  const Node* node = fields.node().find(key);
  if (node == nullptr || node->kind != Node::Kind::string) {
    fields.refuse(key, fmt::format("'{}' must be a string", key));
    return {};
  }
  return node->text;
}

Place read_place(Fields& fields) {
  Place place;
  place.gpu = fields.integer("gpu", kSmall);
  place.gpu_uuid = any_text(fields, "gpu_uuid");
  place.profile = any_text(fields, "profile");
  place.start = fields.integer("start", kSmall);
  return place;
}

WantedInstance read_instance(Fields& parent, const Node& node) {
  Fields fields(parent, node);
  WantedInstance one;
  one.profile = fields.text("profile");
  one.start = fields.integer("start", kSmall);
  if (fields.has("service")) {
    one.segment.service = fields.text("service");
    one.segment.batch = fields.integer("batch", kSmall);
    one.segment.processes = fields.integer("processes", kSmall);
    one.segment.throughput_rps = fields.number("throughput_rps", kNotNegative);
  }
  return one;
}

Wanted read_wanted(Fields& parent, std::string_view key) {
  Wanted wanted;
  for (const Node& node : parent.list(key)) {
    Fields fields(parent, node);
    WantedGpu& gpu = wanted.gpus.emplace_back();
    gpu.model = fields.text("model");
    gpu.uuid = any_text(fields, "uuid");
    if (fields.has("index")) gpu.index = fields.integer("index", kSmall);
    for (const Node& instance : fields.list("instances")) {
      gpu.instances.push_back(read_instance(fields, instance));
    }
  }
  return wanted;
}

std::vector<plan::Terms> read_services(Fields& parent, std::string_view key) {
  std::vector<plan::Terms> services;
  if (!parent.has(key)) return services;
  for (const Node& node : parent.list(key)) {
    Fields fields(parent, node);
    Form::Item<plan::Terms> item{&services.emplace_back(), nullptr, describe_kept_terms};
    Form::read(fields, {&item, &Form::Item<plan::Terms>::walk});
  }
  return services;
}

Record read_begin(Fields& fields) {
  BeginRecord one;
  one.transaction = fields.integer("transaction", kSmall);
  one.rollback = fields.boolean("rollback");
  for (const Node& uuid : fields.list("gpu_uuids")) one.gpu_uuids.push_back(uuid.text);
  one.target = read_wanted(fields, "target");
  one.source = read_wanted(fields, "source");
  one.target.services = read_services(fields, "target_services");
  one.source.services = read_services(fields, "source_services");
  return one;
}

Record read_body(Fields& fields) {
  const std::string record = fields.text("record");
  if (record == "begin") return read_begin(fields);
  if (record == "intent") return IntentRecord{read_place(fields)};
  if (record == "made") return MadeRecord{read_place(fields), any_text(fields, "uuid")};
  if (record == "gone") return GoneRecord{fields.text("uuid")};
  if (record != "end") fields.refuse("record", fmt::format("no record is called '{}'", record));
  EndRecord end;
  end.transaction = fields.integer("transaction", kSmall);
  end.outcome = fields.text("outcome");
  end.reason = any_text(fields, "reason");
  return end;
}

Error damaged(Error error) {
  error.message +=
      "; nothing was changed. Without the journal Partita cannot tell its instances from those of "
      "others: move the file away to start a new one";
  return error;
}

// The record of a line whose checksum is right.
Result<Record> read_record(const std::string& file, const LogRecord& line) {
  const Result<Document> document = parse_document(file, line.text);
  if (!document) return bad_input("", document.error().message);
  Fields fields(*document);
  Record record = read_body(fields);
  if (fields.error()) return bad_input("", fields.error()->message);
  return record;
}

std::string body_of(const Record& record) {
  JsonWriter out;
  std::visit(BodyWriter{out}, record);
  return out.take();
}

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
  Result<JournalState> state = state_of(file, *log);
  if (!state) return failed(state.error());
  return ParsedJournal{*std::move(state), log->valid_bytes};
}

Result<JournalState> read_journal(Files& files, const std::string& path) {
  if (!files.exists(path)) return JournalState{};
  const Result<std::string> text = files.read(path);
  if (!text) return failed(text.error());
  Result<ParsedJournal> parsed = parse_journal(path, *text);
  if (!parsed) return failed(parsed.error());
  return std::move(parsed->state);
}

Result<Journal> Journal::open(Files& files, const std::string& path) {
  Result<RecordLog> log = RecordLog::open(files, path, kKind);
  if (!log)
    return failed(log.error().code == ErrorCode::bad_input ? damaged(log.error()) : log.error());
  Result<JournalState> state = state_of(path, log->found());
  if (!state) return failed(state.error());
  return Journal(*std::move(log), *std::move(state));
}

Result<void> Journal::append(const Record& record) {
  const bool full = std::holds_alternative<BeginRecord>(record) && log_.bytes() > kMaxJournalBytes;
  if (full) {
    if (auto written = log_.replace(bodies_of(state_)); !written) return written;
  }
  if (auto written = log_.append({body_of(record)}); !written) return written;
  std::visit(Follow{state_}, record);
  return {};
}

}  // namespace partita::actuate
