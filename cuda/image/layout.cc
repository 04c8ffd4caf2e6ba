#include "image/layout.h"

#include <algorithm>
#include <charconv>

#include "image/elf.h"

namespace partita::remote::image {
namespace {

// --- cubins ----------------------------------------------------------------------------------

constexpr std::string_view kInfo = ".nv.info.";
constexpr std::uint8_t kParameter = 0x17, kParameterV2 = 0x45, kParameterBytes = 0x19;
constexpr std::uint8_t kMostThreads = 0x05, kThreads = 0x10;  // extents in x, y and z
constexpr std::uint8_t kWithBytes = 4;  // a record with bytes behind it

Result<void> add_place(Layout& layout, Blob record, bool second_form) {
  const auto ordinal = read_at<std::uint16_t>(record, 4),
             offset = read_at<std::uint16_t>(record, 6);
  const auto word = read_at<std::uint32_t>(record, 8);
  if (!ordinal || !offset || !word) return bad_input("cubin", "a parameter's record is cut");
  const std::uint32_t size = second_form ? *word : *word >> 18;
  if (*ordinal >= kMaxParameters || size > kMaxParameterBytes)
    return bad_input("cubin", "a parameter is out of all limits");
  if (layout.parameters.size() <= *ordinal) layout.parameters.resize(*ordinal + 1U);
  layout.parameters[*ordinal] = {*offset, size};
  layout.bytes = std::max(layout.bytes, *offset + size);
  return {};
}

constexpr std::uint64_t kMostThreadsOfAll = 1 << 16;

std::uint64_t times(std::uint64_t threads, std::uint32_t extent) {
  return std::min(threads * std::min<std::uint64_t>(extent, kMostThreadsOfAll), kMostThreadsOfAll);
}

Result<std::uint32_t> threads_of(Blob record) {
  std::uint64_t threads = 1;
  for (const std::size_t at : {0, 4, 8}) {
    const auto extent = read_at<std::uint32_t>(record, at);
    if (!extent) return bad_input("cubin", "the record of a block's threads is cut");
    threads = times(threads, *extent);
  }
  return static_cast<std::uint32_t>(threads);
}

Result<Layout> info_layout(Blob info) {
  Layout layout;
  std::optional<std::uint32_t> said;
  while (!info.empty()) {
    const auto length = read_at<std::uint16_t>(info, 2);
    if (!length) return bad_input("cubin", "a record of .nv.info is cut");
    const auto form = std::to_integer<std::uint8_t>(info[0]);
    const auto what = std::to_integer<std::uint8_t>(info[1]);
    const std::size_t behind = form == kWithBytes ? *length : 0;
    if (info.size() - 4 < behind) return bad_input("cubin", "a record of .nv.info is cut");
    if (form == kWithBytes && (what == kParameter || what == kParameterV2)) {
      auto added = add_place(layout, info.subspan(4, behind), what == kParameterV2);
      if (!added) return failed(added.error());
    }
    if (form == kWithBytes && (what == kMostThreads || what == kThreads))
      layout.threads = TRY(threads_of(info.subspan(4, behind)));
    if (form != kWithBytes && what == kParameterBytes) said = *length;
    info = info.subspan(4 + behind);
  }
  if (said && *said < layout.bytes)
    return bad_input("cubin", "its parameters take more than the block they lie in");
  return layout;
}

// --- PTX text --------------------------------------------------------------------------------

constexpr bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || c == '.' || c == '%';
}

// Words and single signs, without comments.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  std::string_view next() {
    skip();
    if (text_.empty()) return {};
    std::size_t size = 0;
    while (size < text_.size() && in_word(text_[size])) ++size;
    return take(std::max<std::size_t>(size, 1));
  }

 private:
  std::string_view take(std::size_t size) {
    const std::string_view word = text_.substr(0, size);
    text_.remove_prefix(word.size());
    return word;
  }
  void skip() {
    for (;;) {
      if (text_.starts_with("//")) {
        take(std::min(text_.find('\n'), text_.size()));
      } else if (text_.starts_with("/*")) {
        const std::size_t end = text_.find("*/", 2);
        take(end == text_.npos ? text_.size() : end + 2);
      } else if (text_.starts_with('"')) {
        const std::size_t end = text_.find('"', 1);
        take(end == text_.npos ? text_.size() : end + 1);
      } else if (!text_.empty() && std::string_view(" \t\r\n").find(text_[0]) != text_.npos) {
        take(1);
      } else {
        return;
      }
    }
  }

  std::string_view text_;
};

std::optional<std::uint32_t> number(std::string_view word) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

// Bytes of ".u64", ".f16x2"; nothing when it is no such word.
std::optional<std::uint32_t> type_bytes(std::string_view word) {
  if (word == ".f16x2" || word == ".bf16x2") return 4;
  if (word == ".bf16") return 2;
  if (word.size() < 3 || word[0] != '.') return std::nullopt;
  if (std::string_view("bsuf").find(word[1]) == std::string_view::npos) return std::nullopt;
  const auto bits = number(word.substr(2));
  if (!bits || (*bits != 8 && *bits != 16 && *bits != 32 && *bits != 64 && *bits != 128))
    return std::nullopt;
  return *bits / 8;
}

struct Declaration {
  std::uint32_t size = 0, align = 0;
};

// From behind `.param` to the sign after the declaration.
std::optional<Declaration> declaration(Words& words, std::string_view& word) {
  std::optional<std::uint32_t> size;
  std::uint32_t align = 0;
  bool pointer = false;
  for (word = words.next(); word.starts_with('.'); word = words.next()) {
    if (word == ".ptr") pointer = true;
    if (word == ".align") {  // behind .ptr it is what the pointer points to
      const auto value = number(words.next());
      if (!value || *value == 0 || *value > 4096 || (*value & (*value - 1)) != 0) return {};
      if (!pointer) align = *value;
    } else if (const auto bytes = type_bytes(word)) {
      size = bytes;
    }
  }
  if (!size || word.empty() || !in_word(word[0])) return {};
  Declaration made{*size, std::max(align, *size)};
  for (word = words.next(); word == "["; word = words.next()) {
    const auto count = number(words.next());
    if (!count || words.next() != "]" || *count > kMaxParameterBytes) return {};
    made.size *= *count;
    if (made.size > kMaxParameterBytes) return {};
  }
  return made;
}

std::optional<Layout> parameter_list(Words& words) {
  Layout layout;
  std::string_view word = words.next();
  while (word != ")") {
    if (word != ".param" || layout.parameters.size() >= kMaxParameters) return std::nullopt;
    const auto made = declaration(words, word);
    if (!made) return std::nullopt;
    const std::uint32_t offset = (layout.bytes + made->align - 1) / made->align * made->align;
    layout.parameters.push_back({offset, made->size});
    layout.bytes = offset + made->size;
    if (layout.bytes > kMaxParameterBytes) return std::nullopt;
    if (word == ",") {
      word = words.next();
      if (word != ".param") return std::nullopt;
    } else if (word != ")") {
      return std::nullopt;
    }
  }
  return layout;
}

// From `word` behind the parameters to the body: the product of what `.maxntid` or `.reqntid` says.
std::uint32_t threads_in_head(Words& words, std::string_view& word) {
  std::uint64_t threads = 0;
  while (!word.empty() && word != "{" && word != ";" && word != ".entry") {
    const bool said = word == ".maxntid" || word == ".reqntid";
    word = words.next();
    if (!said) continue;
    threads = 1;
    for (auto extent = number(word); extent; extent = number(word)) {
      threads = times(threads, *extent);
      word = words.next();
      if (word == ",") word = words.next();
    }
  }
  return static_cast<std::uint32_t>(threads);
}

}  // namespace

Result<Layouts> cubin_layouts(Blob elf) {
  const std::vector<Section> sections = TRY(sections_of(elf));
  Layouts layouts;
  for (const Section& section : sections) {
    if (!section.name.starts_with(kInfo)) continue;
    Layout layout = TRY(info_layout(section.bytes));
    layouts.insert_or_assign(std::string(section.name.substr(kInfo.size())), std::move(layout));
  }
  return layouts;
}

Result<Layouts> ptx_layouts(std::string_view text) {
  Layouts layouts;
  Words words(text);
  std::string_view word = words.next();
  while (!word.empty()) {
    if (word != ".entry") {
      word = words.next();
      continue;
    }
    const std::string name(words.next());
    word = words.next();
    Layout layout;
    if (word == "(") {
      auto list = parameter_list(words);
      if (!list) return bad_input("PTX", "the parameters of " + name + " are not understood");
      layout = *std::move(list);
      word = words.next();
    }
    layout.threads = threads_in_head(words, word);
    layouts.insert_or_assign(name, std::move(layout));
  }
  return layouts;
}

}  // namespace partita::remote::image
