// Record logs: the input as it is; each of its lines as a record of a log that is then torn and
// damaged anywhere; and the same through the open log on a disk whose appends fail half-way.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/record_log.h"
#include "target.h"

namespace {

using partita::log_header;
using partita::log_line;
using partita::parse_log;

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n' && lines.size() < 64) lines.emplace_back();
    if (c != '\n') lines.back() += c;
  }
  // A record that reads like a header is none of a journal's.
  std::erase_if(lines, [](const std::string& one) { return one.starts_with("partita log "); });
  return lines;
}

void check_text(const std::string& text) {
  const auto parsed = parse_log("fuzz", "kind", text);
  if (!parsed) {
    CHECK(parsed.error().context.starts_with("fuzz:"));
    return;
  }
  CHECK(text.find('\n', parsed->valid_bytes) == text.npos);
  std::string again;
  for (const auto& record : parsed->records) again += log_line(record.text);
  const std::string whole = text.substr(0, parsed->valid_bytes);
  CHECK(again == whole || log_header("kind") + again == whole);
}

void check_damage(const std::vector<std::string>& lines, std::size_t cut, char damage) {
  std::string text = log_header("kind");
  std::vector<std::size_t> ends{text.size()};
  for (const std::string& line : lines) {
    text += log_line(line);
    ends.push_back(text.size());
  }
  const auto torn = parse_log("fuzz", "kind", std::string_view(text).substr(0, cut % text.size()));
  CHECK(torn);
  const auto whole = std::ranges::upper_bound(ends, cut % text.size()) - ends.begin();
  CHECK(torn->records.size() == static_cast<std::size_t>(std::max<std::ptrdiff_t>(whole - 1, 0)));
  for (std::size_t i = 0; i < torn->records.size(); ++i) {
    CHECK(torn->records[i].text == lines[i]);
    CHECK(torn->records[i].line == static_cast<int>(i) + 2);
  }
  const std::size_t at = cut % text.size();
  if (damage == 0 || at + 1 == text.size()) return;
  text[at] = static_cast<char>(text[at] ^ damage);
  const auto broken = parse_log("fuzz", "kind", text);
  const auto line = std::ranges::upper_bound(ends, at) - ends.begin() + 1;
  CHECK(!broken && broken.error().context == "fuzz:" + std::to_string(line));
}

// A disk on which an append or a write may fail before, amid or after it.
class BadDisk final : public partita::Files {
 public:
  explicit BadDisk(std::string_view luck) : luck_(luck) {}
  partita::Result<std::string> read(const std::string& path) override { return disk.read(path); }
  partita::Result<void> write_atomic(const std::string& path, std::string_view text) override {
    const unsigned luck = next() % 8;
    if (luck != 1) static_cast<void>(disk.write_atomic(path, text));
    return luck < 2 ? refused() : partita::Result<void>{};
  }
  partita::Result<std::vector<std::string>> list(const std::string& path) override {
    return disk.list(path);
  }
  bool is_directory(const std::string& path) override { return disk.is_directory(path); }
  bool exists(const std::string& path) override { return disk.exists(path); }
  partita::Result<void> append(const std::string& path, std::string_view text) override {
    const unsigned luck = next() % 8;
    if (luck > 2) return disk.append(path, text);
    const std::size_t length = luck == 0 ? text.size() : (next() * text.size()) / 256;
    static_cast<void>(disk.append(path, text.substr(0, length)));
    return refused();
  }
  partita::Result<void> remove(const std::string& path) override { return disk.remove(path); }
  partita::Result<void> make_directories(const std::string&) override { return {}; }
  partita::Result<partita::FileLock> lock(const std::string& path) override {
    return disk.lock(path);
  }

  partita::MemoryFiles disk;

 private:
  static partita::Result<void> refused() { return partita::environment_error("disk", "full"); }
  unsigned next() {
    if (luck_.empty()) return 255;
    const auto byte = static_cast<unsigned char>(luck_.front());
    luck_.remove_prefix(1);
    return byte;
  }
  std::string_view luck_;
};

// What was appended is there, and of what failed at most the last.
void check_disk(const std::vector<std::string>& lines, std::string_view luck) {
  BadDisk files(luck);
  std::vector<std::string> there, seen;
  auto log = partita::RecordLog::open(files, "log", "kind");
  CHECK(log);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool anew = i % 5 == 4;
    std::vector<std::string> next = there;
    if (anew) next = {};
    next.push_back(lines[i]);
    const auto done = anew ? log->replace({lines[i]}) : log->append({lines[i]});
    const auto text = files.exists("log") ? files.read("log") : partita::Result<std::string>("");
    const auto parsed = parse_log("log", "kind", *text);
    CHECK(parsed);
    std::vector<std::string> found;
    for (const auto& record : parsed->records) found.emplace_back(record.text);
    // What failed may be seen until the next append takes it back.
    CHECK(found == next || (!done && (found == there || found == seen)));
    seen = found;
    // A replacement may have happened though it failed; an append that failed is taken back.
    if (done || (anew && found == next)) there = next;
  }
}

}  // namespace

FUZZ_TARGET(record_log) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_text(text);
  const std::vector<std::string> lines = lines_of(text);
  const std::size_t cut = size > 1 ? data[0] * 256U + data[1] : 0;
  check_damage(lines, cut, size > 2 ? static_cast<char>(data[2]) : '\1');
  std::string summed;
  for (const std::string& line : lines) summed += log_line(line);
  check_text(summed);
  check_disk(lines, text);
  return 0;
}
