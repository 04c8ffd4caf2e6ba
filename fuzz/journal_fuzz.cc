// Journals of changes, three times: the input as it is; each of its lines with the right checksum,
// so that what lies behind that is read too; and records made of its bytes, whose journal amounts
// to what a second definition says, also when it is cut or a byte of it is damaged.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "act/journal.h"
#include "base/check.h"
#include "target.h"

namespace {

namespace actuate = partita::actuate;
using actuate::JournalState;
using actuate::Record;

// CRC-32 bit by bit.
std::uint32_t crc32(std::string_view text) {
  std::uint32_t crc = ~0U;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0xEDB88320U : crc >> 1;
  }
  return ~crc;
}

// ---- texts ----

// What is read is rewritten as a journal that amounts to the same.
void check_text(std::string_view text) {
  const auto parsed = actuate::parse_journal("fuzz", text);
  if (!parsed) {
    CHECK(parsed.error().context.starts_with("fuzz:"));
    return;
  }
  CHECK(parsed->valid_bytes <= text.size());
  CHECK(text.substr(parsed->valid_bytes).find('\n') == text.npos);
  const std::string rewritten = actuate::journal_text(parsed->state);
  const auto again = actuate::parse_journal("again", rewritten);
  CHECK(again && again->state == parsed->state && again->valid_bytes == rewritten.size());
  CHECK(actuate::journal_text(again->state) == rewritten);
}

std::string with_checksums(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view body = text.substr(0, end);
    if (!body.starts_with('{')) body.remove_prefix(std::min<std::size_t>(9, body.size()));
    result += fmt::format("{:08x} {}\n", crc32(body), body);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

// ---- records ----

struct Bytes {
  std::string_view left;

  std::uint8_t next() {
    if (left.empty()) return 0;
    const char c = left.front();
    left.remove_prefix(1);
    return static_cast<std::uint8_t>(c);
  }
  // Any byte as the character of that number, in UTF-8.
  std::string text(std::size_t least = 0) {
    std::string result;
    for (std::size_t more = least + next() % 3; more > 0; --more) {
      const std::uint8_t c = next();
      if (c >= 0x80) result += static_cast<char>(0xC0 | c >> 6);
      result += static_cast<char>(c >= 0x80 ? 0x80 | (c & 0x3F) : c);
    }
    return result;
  }
  int number() {
    const int c = next();
    return c < 250 ? c : 1'000'000'000 - (c - 250);
  }
  double rate() {
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits = bits << 8 | next();
    const double value = std::bit_cast<double>(bits);
    return value >= 0 && value <= 1e12 ? value : static_cast<double>(bits >> 32) / 3;
  }
  partita::hw::Placement placement(std::size_t least) {
    std::string profile = text(least);
    return {std::move(profile), number()};
  }
  actuate::Place place() { return {placement(0), number(), text()}; }
  actuate::WantedInstance instance() {
    actuate::WantedInstance one{placement(1), {}};
    if (next() % 2 != 0) one.segment = {text(1), number(), number(), rate()};
    return one;
  }
  actuate::Wanted wanted() {
    actuate::Wanted wanted;
    for (int gpus = next() % 3; gpus > 0; --gpus) {
      wanted.gpus.push_back({text(1), text(), {}});
      for (int more = next() % 3; more > 0; --more)
        wanted.gpus.back().instances.push_back(instance());
    }
    return wanted;
  }
  Record record() {
    switch (next() % 5) {
      case 0: {
        actuate::BeginRecord begin{number(), wanted(), wanted(), {}, next() % 2 != 0};
        for (int more = next() % 3; more > 0; --more) begin.gpu_uuids.push_back(text());
        return begin;
      }
      case 1:
        return actuate::IntentRecord{place()};
      case 2:
        return actuate::MadeRecord{place(), text()};
      case 3:
        return actuate::GoneRecord{text(1)};
      default:
        return actuate::EndRecord{number(), text(1), text()};
    }
  }
};

// The last record about something says what has become of it.
JournalState amounts_to(const std::vector<Record>& records) {
  JournalState state;
  const auto later = [&](std::size_t i, auto about) {
    return std::any_of(records.begin() + static_cast<std::ptrdiff_t>(i) + 1, records.end(), about);
  };
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (const auto* begin = std::get_if<actuate::BeginRecord>(&records[i])) {
      state.last = *begin;
      state.transactions = begin->transaction;
    }
    if (const auto* end = std::get_if<actuate::EndRecord>(&records[i]))
      if (!later(i, [](const Record& one) {
            return std::holds_alternative<actuate::BeginRecord>(one) ||
                   std::holds_alternative<actuate::EndRecord>(one);
          }))
        state.end = *end;
    if (const auto* intent = std::get_if<actuate::IntentRecord>(&records[i]))
      if (!later(i, [&](const Record& one) {
            const auto* made = std::get_if<actuate::MadeRecord>(&one);
            return one == records[i] || (made && made->place == intent->place);
          }))
        state.intended.push_back(intent->place);
    if (const auto* made = std::get_if<actuate::MadeRecord>(&records[i]))
      if (!made->uuid.empty() && !later(i, [&](const Record& one) {
            const auto* gone = std::get_if<actuate::GoneRecord>(&one);
            const auto* anew = std::get_if<actuate::MadeRecord>(&one);
            return (gone && gone->uuid == made->uuid) || (anew && anew->uuid == made->uuid);
          }))
        state.owned.push_back(made->uuid);
  }
  return state;
}

void check_records(Bytes bytes) {
  const std::size_t cut = bytes.next() << 8 | bytes.next();
  const std::size_t damaged = bytes.next() << 8 | bytes.next();
  const char damage = static_cast<char>(std::max<std::uint8_t>(1, bytes.next()));
  std::vector<Record> records;
  std::string text;
  std::vector<std::size_t> ends{0};
  while (!bytes.left.empty() && records.size() < 64) {
    records.push_back(bytes.record());
    text += record_line(records.back());
    ends.push_back(text.size());
  }
  if (text.empty()) return;
  const auto expect = [&](const actuate::ParsedJournal& parsed, std::size_t lines) {
    const auto end = records.begin() + static_cast<std::ptrdiff_t>(lines);
    CHECK(parsed.state == amounts_to({records.begin(), end}));
    CHECK(parsed.valid_bytes == ends[lines]);
  };
  const auto whole = actuate::parse_journal("fuzz", text);
  CHECK(whole);
  expect(*whole, records.size());
  check_text(text);

  const std::size_t length = cut % text.size();
  const auto torn = actuate::parse_journal("fuzz", std::string_view(text).substr(0, length));
  CHECK(torn);
  const auto first_longer = std::ranges::upper_bound(ends, length);
  expect(*torn, static_cast<std::size_t>(first_longer - ends.begin()) - 1);

  const std::size_t at = damaged % text.size();
  text[at] = static_cast<char>(text[at] ^ damage);
  const auto broken = actuate::parse_journal("fuzz", text);
  if (at + 1 == text.size()) {  // the newline that makes the last line whole
    CHECK(broken);
    expect(*broken, records.size() - 1);
  } else {
    const auto line = std::ranges::upper_bound(ends, at) - ends.begin();
    CHECK(!broken && broken.error().context == fmt::format("fuzz:{}", line));
  }
}

}  // namespace

FUZZ_TARGET(journal) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_text(text);
  check_text(with_checksums(text));
  check_records({text});
  // Why a change failed may be the words of somebody else, in any bytes.
  const std::string end = record_line(actuate::EndRecord{1, "failed", std::string(text)});
  CHECK(actuate::parse_journal("fuzz", end));
  return 0;
}
