#include "history/store/store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "history/store/database.h"

namespace partita::history {
namespace {

constexpr int kOpenTries = 40;  // where others open the same new file at the same moment
constexpr unsigned kOpenPauseUs = 50'000;
constexpr std::int64_t kLeastPageBytes = 512, kLeastPages = 64;

// FULL: a commit is on the disk when it returns. Events are few and metrics come in batches, so
// that costs a sync every few seconds.
Result<void> set_up(const SqlFile& file, const Keep& keep) {
  const auto page_bytes = TRY(file.ask("PRAGMA page_size"));
  const std::int64_t pages = keep.bytes / std::max(page_bytes, kLeastPageBytes) * 5 / 4;
  const std::string settings = fmt::format(
      "PRAGMA synchronous = FULL; PRAGMA journal_size_limit = {}; PRAGMA max_page_count = {}",
      std::int64_t{16} << 20, std::max(pages, kLeastPages));
  return file.run(settings.c_str());
}

Result<SqlFile> open_once(const std::string& path, Access access, const Keep& keep) {
  auto file = TRY(SqlFile::open(path, access == Access::write));
  // Views and triggers of a file that somebody prepared call nothing.
  auto ready = file.run("PRAGMA trusted_schema = OFF");
  if (ready) ready = access == Access::write ? bring_up_to_date(file) : check_schema(file);
  if (ready && access == Access::write) ready = set_up(file, keep);
  if (!ready) return failed(ready.error());
  return file;
}

Result<void> check_event(const Event& event) {
  if (event.id != 0) return bad_input("", fmt::format("event {} is kept already", event.id));
  if (event.user.empty()) return bad_input("", "an event needs a user");
  if (event.change < 0) return bad_input("", "the number of a change is not negative");
  if (event.time_ms < -kMaxTimeMs || event.time_ms > kMaxTimeMs)
    return bad_input("", fmt::format("{} ms is no time of an event", event.time_ms));
  return {};
}

Result<void> insert_documents(const SqlFile& file, std::int64_t id, const Event& event) {
  Sql insert(file, "INSERT INTO documents(event, position, name, text) VALUES(?1, ?2, ?3, ?4)");
  std::int64_t position = 0, bytes = 0;
  for (const Event::Attachment& document : event.documents) {
    TRY(insert.with(id, position++, document.name, document.text).done());
    bytes += static_cast<std::int64_t>(document.text.size());
  }
  if (bytes == 0) return {};
  Sql count(file, "UPDATE counters SET value = value + ?1 WHERE name = 'document_bytes'");
  return count.with(bytes).done();
}

// Its number.
Result<std::int64_t> insert_event(const SqlFile& file, const Event& given) {
  TRY(check_event(given));
  const Event event = fitted(given);
  Sql insert(file,
             "INSERT INTO events(time_ms, kind, change, user, cause, subject, outcome, detail) "
             "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
  insert.with(event.time_ms, std::string_view(to_string(event.kind)),
              static_cast<std::int64_t>(event.change), event.user, event.cause, event.subject,
              std::string_view(to_string(event.outcome)), event.detail);
  TRY(insert.done());
  const std::int64_t id = file.last_row();
  TRY(insert_documents(file, id, event));
  if (event.change > 0) {
    Sql count(file, "UPDATE counters SET value = max(value, ?1) WHERE name = 'change'");
    if (auto done = count.with(static_cast<std::int64_t>(event.change)).done(); !done)
      return failed(done.error());
  }
  return id;
}

// Kinds between commas, for instr().
std::string kind_set(const std::vector<EventKind>& kinds) {
  if (kinds.empty()) return {};
  std::string set = ",";
  for (const EventKind kind : kinds) {
    set += to_string(kind);
    set += ',';
  }
  return set;
}

// The event in the row that `row` stands on, without its documents.
Result<Event> event_of(const SqlFile& file, const Sql& row) {
  const auto kind = parse_kind(row.text(2));
  const auto outcome = parse_outcome(row.text(7));
  if (!kind || !outcome)
    return bad_input(file.path(),
                     fmt::format("event {} is of kind '{}' with outcome '{}', which this Partita "
                                 "does not know",
                                 row.whole(0), row.text(2), row.text(7)));
  return Event{.id = row.whole(0),
               .time_ms = row.whole(1),
               .kind = *kind,
               .change = row.whole(3),
               .user = row.text(4),
               .cause = row.text(5),
               .subject = row.text(6),
               .outcome = *outcome,
               .detail = row.text(8)};
}

// Fills in documents; events after those that fit an answer are dropped, the first never is.
Result<void> add_documents(const SqlFile& file, std::vector<Event>& events) {
  Sql documents(file, "SELECT name, text FROM documents WHERE event = ?1 ORDER BY position");
  std::size_t bytes = 0;
  for (std::size_t e = 0; e < events.size(); ++e) {
    documents.with(static_cast<std::int64_t>(events[e].id));
    while (documents.row()) {
      events[e].documents.push_back({documents.text(0), documents.text(1)});
      bytes += events[e].documents.back().text.size();
    }
    TRY(documents.done());
    if (bytes > kMaxAnswerBytes && e > 0) {
      events.resize(e);
      return {};
    }
  }
  return {};
}

}  // namespace

Store::Store(std::unique_ptr<Database> database) : database_(std::move(database)) {}
Store::~Store() = default;
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;

Result<Store> Store::open(const std::string& path, Access access, const Keep& keep) {
  auto file = open_once(path, access, keep);
  for (int tries = 1; !file && file.error().code == ErrorCode::in_use && tries < kOpenTries;
       ++tries) {
    ::usleep(kOpenPauseUs);
    file = open_once(path, access, keep);
  }
  if (!file) return failed(file.error());
  return Store(std::make_unique<Database>(Database{std::move(*file), access, keep}));
}

Result<long> Store::append(const Event& event) { return append_all({event}); }

Result<long> Store::append_all(const std::vector<Event>& events) {
  const SqlFile& file = database_->file;
  Transaction transaction(file);
  TRY(transaction.begin());
  std::int64_t id = 0;
  for (const Event& event : events) {
    id = TRY(insert_event(file, event));
  }
  TRY(transaction.commit());
  return id;
}

Result<long> Store::last_change() const {
  const auto number = TRY(database_->file.ask("SELECT value FROM counters WHERE name = 'change'"));
  return static_cast<long>(number);
}

Result<std::vector<Event>> Store::events(const EventQuery& query) const {
  if (query.most < 1 || query.most > kMaxRows)
    return bad_input("",
                     fmt::format("one query gives 1 to {} events, not {}", kMaxRows, query.most));
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kGreatest = std::numeric_limits<std::int64_t>::max();
  const SqlFile& file = database_->file;
  Transaction transaction(file);
  TRY(transaction.begin(false));
  const std::string text =
      std::string("SELECT * FROM events WHERE ") + (query.change ? "change = ?7" : "?7 = ?7") +
      " AND id < ?1 AND id > ?2 AND time_ms >= ?3 AND time_ms < ?4 AND (?5 = '' OR subject = ?5)"
      " AND (?6 = '' OR instr(?6, ',' || kind || ',')) AND (?8 = '' OR user = ?8)"
      " ORDER BY id DESC LIMIT ?9";
  Sql rows(file, text.c_str());
  rows.with(std::int64_t{query.before.value_or(kGreatest)},
            std::int64_t{query.after.value_or(kLeast)}, query.from_ms.value_or(kLeast),
            query.to_ms.value_or(kGreatest), query.subject, kind_set(query.kinds),
            std::int64_t{query.change.value_or(0)}, query.user,
            static_cast<std::int64_t>(query.most));
  std::vector<Event> events;
  while (rows.row()) {
    auto event = TRY(event_of(file, rows));
    events.push_back(std::move(event));
  }
  TRY(rows.done());
  if (query.documents) {
    if (auto added = add_documents(file, events); !added) return failed(added.error());
  }
  return events;
}

Result<std::optional<Event>> Store::event(long id) const {
  EventQuery query;
  query.before = id + 1;
  query.after = id - 1;
  query.most = 1;
  auto found = TRY(events(query));
  if (found.empty()) return std::optional<Event>{};
  return std::optional<Event>{std::move(found.front())};
}

bool is_damage(const Error& error) {
  for (const char* how : {"is damaged", "is a SQLite file", "SQLite refused: no such"})
    if (error.message.starts_with(how)) return true;
  return false;
}

std::string history_path(const std::string& state_dir) { return state_dir + "/history.db"; }

}  // namespace partita::history
