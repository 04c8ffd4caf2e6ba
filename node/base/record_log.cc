#include "base/record_log.h"

#include <fmt/format.h>
#include <zlib.h>

#include <charconv>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace partita {
namespace {

constexpr std::size_t kSumDigits = 8;
constexpr std::size_t kLeastRoom = 16u << 10;  // for records, beside a copy of the log
constexpr std::string_view kHeaderStart = "partita log ";

unsigned long checksum(std::string_view text) {
  return ::crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size());
}

// "partita log 1 changes", which no JSON record is. Empty: it is this kind's and can be read.
std::string header_refusal(std::string_view text, std::string_view kind) {
  text.remove_prefix(kHeaderStart.size());
  int version = 0;
  const auto [stopped, code] = std::from_chars(text.data(), text.data() + text.size(), version);
  text.remove_prefix(static_cast<std::size_t>(stopped - text.data()));
  if (code != std::errc{} || !text.starts_with(' ')) return "this is no header of a log";
  if (version != kLogVersion)
    return fmt::format("a log of version {}, this program reads {}", version, kLogVersion);
  if (text.substr(1) == kind) return {};
  return fmt::format("a log of '{}', not of '{}'", text.substr(1, 64), kind);
}

// Why a line without its newline is no record; empty: it is one.
std::string line_refusal(std::string_view line) {
  if (line.size() <= kSumDigits || line[kSumDigits] != ' ') return "this is no record";
  const bool right =
      line.substr(0, kSumDigits) == fmt::format("{:08x}", checksum(line.substr(kSumDigits + 1)));
  return right ? "" : "the checksum is wrong";
}

}  // namespace

std::string log_line(std::string_view record) {
  CHECK(record.find('\n') == std::string_view::npos);
  return fmt::format("{:08x} {}\n", checksum(record), record);
}

std::string log_header(std::string_view kind) {
  return log_line(fmt::format("{}{} {}", kHeaderStart, kLogVersion, kind));
}

Result<ParsedLog> parse_log(const std::string& file, std::string_view kind, std::string_view text) {
  ParsedLog parsed;
  for (int number = 1;; ++number) {
    const std::size_t end = text.find('\n', parsed.valid_bytes);
    if (end == std::string_view::npos) return parsed;  // torn: the newline is written last
    const std::string_view line = text.substr(parsed.valid_bytes, end - parsed.valid_bytes);
    std::string refusal = line_refusal(line);
    const bool header = refusal.empty() && line.substr(kSumDigits + 1).starts_with(kHeaderStart);
    if (header) {
      refusal = number > 1 ? "a header amid the records"
                           : header_refusal(line.substr(kSumDigits + 1), kind);
    }
    if (!refusal.empty()) return bad_input(fmt::format("{}:{}", file, number), refusal);
    if (!header) parsed.records.push_back({number, line.substr(kSumDigits + 1)});
    parsed.valid_bytes = end + 1;
  }
}

Result<RecordLog> RecordLog::open(Files& files, const std::string& path, const std::string& kind) {
  FileLock lock = TRY(files.lock(path + ".lock"));
  RecordLog log(files, path, kind, std::move(lock));
  if (const auto room = files.exists(log.room_path()) ? files.read(log.room_path()) : std::string())
    log.room_ = room->size();
  if (!files.exists(path)) return log;
  std::string text = TRY(files.read(path));
  log.text_ = std::make_shared<const std::string>(std::move(text));
  log.found_ = TRY(parse_log(path, kind, *log.text_));
  log.bytes_ = log.found_.valid_bytes;
  log.torn_ = log.bytes_ < log.text_->size();
  return log;
}

// What is on the disk; from now on it is known whether the last replacement is.
Result<std::string> RecordLog::settled() {
  // Where the first write came to nothing there is no file yet.
  std::string text =
      TRY(bytes_ == 0 && !files_->exists(path_) ? std::string() : files_->read(path_));
  if (text == doubtful_) bytes_ = doubtful_.size();
  doubtful_.clear();
  return text;
}

Result<void> RecordLog::append(const std::vector<std::string>& records) {
  return append_by(&Files::append, records);
}

Result<void> RecordLog::append_unsynced(const std::vector<std::string>& records) {
  return append_by(&Files::append_unsynced, records);
}

// Of what cuts off a torn end a copy is made. Bytes that no file system makes smaller.
Result<void> RecordLog::keep_room() {
  if (room_ >= bytes_ + kLeastRoom) return {};
  std::string room(2 * (bytes_ + kLeastRoom), '\0');
  Rng rng(1);
  for (char& byte : room) byte = static_cast<char>(rng.below(256));
  TRY(files_->write_atomic(room_path(), room));
  room_ = room.size();
  return {};
}

Result<void> RecordLog::announce(const std::vector<std::string>& records) {
  TRY(keep_room());
  return append_once(&Files::append, records);
}

Result<void> RecordLog::announce_unsynced(const std::vector<std::string>& records) {
  TRY(keep_room());
  return append_once(&Files::append_unsynced, records);
}

Result<void> RecordLog::append_by(Append how, const std::vector<std::string>& records) {
  const Result<void> written = append_once(how, records);
  if (written || room_ == 0 || !files_->remove(room_path())) return written;
  room_ = 0;
  return append_once(how, records);
}

Result<void> RecordLog::append_once(Append how, const std::vector<std::string>& records) {
  if (records.empty()) return {};
  if (torn_) {
    const std::string text = TRY(settled());
    const std::string_view whole = std::string_view(text).substr(0, bytes_);
    if (whole.size() < text.size()) TRY(files_->write_atomic(path_, whole));
    torn_ = false;
  }
  std::string lines = bytes_ == 0 ? log_header(kind_) : "";
  for (const std::string& record : records) lines += log_line(record);
  if (auto written = (files_->*how)(path_, lines); !written) {
    torn_ = true;
    return written;
  }
  bytes_ += lines.size();
  return {};
}

Result<void> RecordLog::replace(const std::vector<std::string>& records) {
  std::string text = log_header(kind_);
  for (const std::string& record : records) text += log_line(record);
  // Of two replacements in doubt nobody could tell which one is there.
  if (!doubtful_.empty()) TRY(settled());
  if (auto written = files_->write_atomic(path_, text); !written) {
    torn_ = true;
    doubtful_ = std::move(text);
    return written;
  }
  bytes_ = text.size();
  doubtful_.clear();
  torn_ = false;
  return {};
}

}  // namespace partita
