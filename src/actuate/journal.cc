#include "actuate/journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/document.h"
#include "base/fields.h"
#include "base/json_writer.h"

namespace partita::actuate {
namespace {

// CRC-32 (ISO 3309, polynomial 0xEDB88320 reflected).
std::uint32_t crc32(std::string_view text) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> t{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = (c & 1) != 0 ? 0xEDB88320U ^ (c >> 1) : c >> 1;
      t[i] = c;
    }
    return t;
  }();
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char c : text) {
    crc = table[(crc ^ static_cast<unsigned char>(c)) & 0xFF] ^ (crc >> 8);
  }
  return ~crc;
}

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
    for (const Node& instance : fields.list("instances")) {
      gpu.instances.push_back(read_instance(fields, instance));
    }
  }
  return wanted;
}

Record read_begin(Fields& fields) {
  BeginRecord one;
  one.transaction = fields.integer("transaction", kSmall);
  one.rollback = fields.boolean("rollback");
  for (const Node& uuid : fields.list("gpu_uuids")) one.gpu_uuids.push_back(uuid.text);
  one.target = read_wanted(fields, "target");
  one.source = read_wanted(fields, "source");
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

Error damaged(const std::string& file, int line, const std::string& what) {
  return {ErrorCode::bad_input,
          what +
              "; nothing was changed. Without the journal Partita cannot tell its instances from "
              "those of others: move the file away to start a new one",
          fmt::format("{}:{}", file, line)};
}

// One line without its newline.
Result<Record> parse_line(const std::string& file, int number, std::string_view line) {
  if (line.size() < 10 || line[8] != ' ') {
    return failed(damaged(file, number, "not a journal record"));
  }
  const std::string_view body = line.substr(9);
  if (fmt::format("{:08x}", crc32(body)) != line.substr(0, 8)) {
    return failed(damaged(file, number, "the checksum is wrong"));
  }
  const Result<Document> document = parse_document(file, body);
  if (!document) return failed(damaged(file, number, document.error().message));
  Fields fields(*document);
  Record record = read_body(fields);
  if (fields.error()) return failed(damaged(file, number, fields.error()->message));
  return record;
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

}  // namespace

std::string record_line(const Record& record) {
  JsonWriter out;
  std::visit(BodyWriter{out}, record);
  const std::string body = out.take();
  return fmt::format("{:08x} {}\n", crc32(body), body);
}

std::string journal_text(const JournalState& state) {
  std::string text;
  for (const std::string& uuid : state.owned) text += record_line(MadeRecord{{}, uuid});
  for (const Place& place : state.intended) text += record_line(IntentRecord{place});
  if (state.last) text += record_line(*state.last);
  if (state.end) text += record_line(*state.end);
  return text;
}

Result<ParsedJournal> parse_journal(const std::string& file, std::string_view text) {
  ParsedJournal parsed;
  int number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // torn: the newline is written last
    const Result<Record> record = parse_line(file, number, text.substr(0, end));
    if (!record) return failed(record.error());
    std::visit(Follow{parsed.state}, *record);
    parsed.valid_bytes += end + 1;
    text.remove_prefix(end + 1);
  }
  return parsed;
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
  Result<FileLock> lock = files.lock(path + ".lock");
  if (!lock) return failed(lock.error());
  Journal journal(files, path, *lock);
  if (!files.exists(path)) return journal;
  const Result<std::string> text = files.read(path);
  if (!text) return failed(text.error());
  Result<ParsedJournal> parsed = parse_journal(path, *text);
  if (!parsed) return failed(parsed.error());
  journal.state_ = std::move(parsed->state);
  journal.bytes_ = parsed->valid_bytes;
  journal.torn_ = parsed->valid_bytes < text->size();
  return journal;
}

// Leaves the shortest journal that amounts to the same.
Result<void> Journal::rewrite() {
  torn_ = true;
  const std::string text = journal_text(state_);
  if (auto written = files_->write_atomic(path_, text); !written) return written;
  bytes_ = text.size();
  torn_ = false;
  return {};
}

Result<void> Journal::append(const Record& record) {
  const bool full = std::holds_alternative<BeginRecord>(record) && bytes_ > kMaxJournalBytes;
  if (torn_ || full) {
    if (auto written = rewrite(); !written) return written;
  }
  const std::string line = record_line(record);
  if (auto written = files_->append(path_, line); !written) {
    torn_ = true;
    return written;
  }
  bytes_ += line.size();
  std::visit(Follow{state_}, record);
  return {};
}

}  // namespace partita::actuate
