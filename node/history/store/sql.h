// SQLite behind two small classes: a file, and a statement with its values and rows. The one place
// that includes sqlite3.h is sql.cc. A refusal sticks to its statement: a row() after it is false,
// and done() says what it was. Internal to the store.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace partita::history {

class SqlFile;

class Sql {
 public:
  Sql(const SqlFile& file, const char* text);
  ~Sql();
  Sql(const Sql&) = delete;

  // Begins anew with these values for ?1, ?2, ...
  template <class... Values>
  Sql& with(const Values&... values) {
    reset();
    (bind(values), ...);
    return *this;
  }
  // Goes to the next row; false at the end, and after a refusal.
  bool row();
  // To the end; the first refusal so far.
  Result<void> done();

  // Of the row it stands on; columns count from 0.
  std::int64_t whole(int column) const;
  double number(int column) const;
  std::string text(int column) const;
  bool null(int column) const;

 private:
  void reset();
  void bind(std::int64_t value);
  void bind(double value);
  void bind(std::string_view value);

  const SqlFile& file_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
  bool ended_ = false;  // a further step would run it again
  std::optional<Error> error_;
};

class SqlFile {
 public:
  static Result<SqlFile> open(const std::string& path, bool write);

  const std::string& path() const { return path_; }
  // Statements whose rows nobody wants, separated by semicolons.
  Result<void> run(const char* text) const;
  // The first number that a statement gives.
  Result<std::int64_t> ask(const char* text) const;
  std::int64_t last_row() const;
  // What a status of SQLite means, for people.
  Error error(int status) const;

 private:
  friend class Sql;
  struct Close {
    void operator()(sqlite3* file) const;
  };
  std::string path_;
  std::unique_ptr<sqlite3, Close> file_;
};

// All or nothing of what is written between begin() and commit(). Rolls back when it dies before.
class Transaction {
 public:
  explicit Transaction(const SqlFile& file) : file_(file) {}
  ~Transaction();
  Transaction(const Transaction&) = delete;
  // immediate: nobody else writes from here on. Else what is read belongs together.
  Result<void> begin(bool immediate = true);
  Result<void> commit();

 private:
  const SqlFile& file_;
  bool open_ = false;
};

}  // namespace partita::history
