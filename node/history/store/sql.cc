#include "history/store/sql.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/descriptor.h"

namespace partita::history {
namespace {

constexpr int kBusyMs = 5000;  // how long a call waits for another process that writes
constexpr mode_t kFileMode = 0640;

Error refused_by_system(const std::string& path, const char* call) {
  const ErrorCode code = errno == EACCES ? ErrorCode::denied : ErrorCode::environment;
  return {code, fmt::format("{}: {}", call, std::strerror(errno)), path};
}

// The file, so that SQLite does not make it with rights of its own choosing; and the folder's entry
// survives a crash of the machine.
Result<void> make_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode));
  if (file.get() < 0 && errno == EEXIST) return {};
  if (file.get() < 0 || ::fchmod(file.get(), kFileMode) != 0)
    return failed(refused_by_system(path, "cannot create"));
  std::string parent = std::filesystem::path(path).parent_path().string();
  if (parent.empty()) parent = ".";
  const Descriptor folder(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 || ::fsync(folder.get()) != 0)
    return failed(refused_by_system(path, "cannot sync the directory"));
  return {};
}

std::string damaged(const std::string& path, const char* said) {
  return fmt::format(
      "is damaged ({}). Move it away, `mv {} {}.damaged`, and a new history is begun; `sqlite3 "
      "{}.damaged .recover` may still tell what was in it",
      said, path, path, path);
}

}  // namespace

// ---- one statement

Sql::Sql(const SqlFile& file, const char* text) : file_(file) {
  const int status = sqlite3_prepare_v2(file.file_.get(), text, -1, &statement_, nullptr);
  if (status != SQLITE_OK) error_ = file.error(status);
}

Sql::~Sql() { sqlite3_finalize(statement_); }

void Sql::reset() {
  sqlite3_reset(statement_);
  bound_ = 0;
  ended_ = false;
}

void Sql::bind(std::int64_t value) { sqlite3_bind_int64(statement_, ++bound_, value); }
void Sql::bind(double value) { sqlite3_bind_double(statement_, ++bound_, value); }
void Sql::bind(std::string_view value) {
  const char* data = value.data() != nullptr ? value.data() : "";  // null would be NULL
  const int status =
      sqlite3_bind_text64(statement_, ++bound_, data, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  if (status != SQLITE_OK && !error_) error_ = file_.error(status);
}

bool Sql::row() {
  if (error_ || ended_) return false;
  const int status = sqlite3_step(statement_);
  if (status == SQLITE_ROW) return true;
  if (status != SQLITE_DONE) error_ = file_.error(status);
  sqlite3_reset(statement_);
  ended_ = true;
  return false;
}

Result<void> Sql::done() {
  while (row()) {
  }
  if (error_) return failed(*error_);
  return {};
}

std::int64_t Sql::whole(int column) const { return sqlite3_column_int64(statement_, column); }
double Sql::number(int column) const { return sqlite3_column_double(statement_, column); }
bool Sql::null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
std::string Sql::text(int column) const {
  const unsigned char* text = sqlite3_column_text(statement_, column);
  const int bytes = sqlite3_column_bytes(statement_, column);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text), static_cast<std::size_t>(bytes)};
}

// ---- a file

void SqlFile::Close::operator()(sqlite3* file) const { sqlite3_close_v2(file); }

Result<SqlFile> SqlFile::open(const std::string& path, bool write) {
  if (write) {
    if (auto made = make_file(path); !made) return failed(made.error());
  }
  SqlFile file;
  file.path_ = path;
  sqlite3* opened = nullptr;
  const int flags = (write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) | SQLITE_OPEN_NOMUTEX;
  const std::string absolute = std::filesystem::absolute(path).lexically_normal().string();
  const int status = sqlite3_open_v2(absolute.c_str(), &opened, flags, nullptr);
  file.file_.reset(opened);
  if (opened == nullptr) return environment_error(path, "the system refused memory");
  if (status != SQLITE_OK) return failed(file.error(status));
  sqlite3_busy_timeout(opened, kBusyMs);
  // What -wal and -shm are needed for by readers that may not make them stays when we close.
  int keep = 1;
  if (write) sqlite3_file_control(opened, nullptr, SQLITE_FCNTL_PERSIST_WAL, &keep);
  return file;
}

Result<void> SqlFile::run(const char* text) const {
  const int status = sqlite3_exec(file_.get(), text, nullptr, nullptr, nullptr);
  if (status != SQLITE_OK) return failed(error(status));
  return {};
}

Result<std::int64_t> SqlFile::ask(const char* text) const {
  Sql question(*this, text);
  const std::int64_t answer = question.row() ? question.whole(0) : 0;
  TRY(question.done());
  return answer;
}

std::int64_t SqlFile::last_row() const { return sqlite3_last_insert_rowid(file_.get()); }

Error SqlFile::error(int status) const {
  const char* said = sqlite3_errmsg(file_.get());
  switch (status & 0xff) {
    case SQLITE_CORRUPT:
      return {ErrorCode::bad_input, damaged(path_, said), path_};
    case SQLITE_NOTADB:
      return {ErrorCode::bad_input, damaged(path_, "it is no SQLite file"), path_};
    case SQLITE_FULL:
      return {ErrorCode::environment,
              "no room: its disk is full, or it has grown to what it may be; what was there before "
              "is kept",
              path_};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::in_use,
              fmt::format("another process has been writing it for {} s", kBusyMs / 1000), path_};
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_READONLY:
      return {ErrorCode::denied, fmt::format("cannot write: {}", said), path_};
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR: {
      const int number = sqlite3_system_errno(file_.get());
      const char* reason = number != 0 ? std::strerror(number) : said;
      return {number == EACCES ? ErrorCode::denied : ErrorCode::environment,
              fmt::format("{}: {}",
                          (status & 0xff) == SQLITE_IOERR ? "cannot read or write" : "cannot open",
                          reason),
              path_};
    }
    default:
      return {ErrorCode::environment, fmt::format("SQLite refused: {}", said), path_};
  }
}

// ---- transactions

Transaction::~Transaction() {
  // After some refusals SQLite has rolled back itself, and says that there is nothing to be done.
  if (open_) static_cast<void>(file_.run("ROLLBACK"));
}

Result<void> Transaction::begin(bool immediate) {
  Result<void> begun = file_.run(immediate ? "BEGIN IMMEDIATE" : "BEGIN");
  open_ = begun.has_value();
  return begun;
}

Result<void> Transaction::commit() {
  Result<void> committed = file_.run("COMMIT");
  if (committed) open_ = false;
  return committed;
}

}  // namespace partita::history
