#include "planted.h"

#include <algorithm>
#include <sstream>

#include "base/check.h"
#include "base/parse_number.h"

namespace partita::ptx::planted {
namespace {

constexpr const char* kPreamble = R"(.version 7.5
.target sm_70
.address_size 64
.extern .func __assertfail(.param .b64 p0, .param .b64 p1, .param .b32 p2, .param .b64 p3,
  .param .b64 p4);
.func helper() { ret; }
.extern .shared .align 16 .b8 dyn[];
.const .align 16 .b8 c[64] = {1, 2, 3, 4};
.global .align 16 .b8 g[64] = {104, 105};
.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n)
{
.reg .pred %p<10>; .reg .b16 %h<10>; .reg .b32 %r<40>; .reg .b64 %d<40>; .reg .f32 %f<10>;
.shared .align 16 .b8 s[512];
.local .align 16 .b8 l[64];
ld.param.u64 %d1, [a];
ld.param.u64 %d2, [b];
ld.param.u32 %r9, [n];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
mov.u32 %r3, %ntid.x;
mad.lo.s32 %r4, %r2, %r3, %r1;
mul.wide.s32 %d10, %r4, 4;
add.s64 %d4, %d1, %d10;
add.s64 %d5, %d2, %d10;
mov.u32 %r20, s;
shl.b32 %r21, %r1, 2;
add.s32 %r22, %r20, %r21;
mov.u64 %d20, l;
)";

std::uint64_t number(const std::string& word) {
  const auto value = parse_number<std::uint64_t>(word);
  CHECK(value.has_value());
  return *value;
}

Extent extent(std::string word) {
  Extent result;
  std::istringstream parts(word);
  std::string part;
  for (std::uint32_t* one : {&result.x, &result.y, &result.z}) {
    if (!std::getline(parts, part, ',')) break;
    *one = static_cast<std::uint32_t>(number(part));
  }
  return result;
}

// Blocks and threads count from zero, so that what is left out is 0.
Extent place(const std::string& word) {
  Extent result = extent(word);
  if (word.find(',') == std::string::npos) result.y = 0;
  result.z = 0;
  return result;
}

Expected expected(std::istringstream& words) {
  Expected result;
  std::string word, value;
  words >> result.kind;
  std::replace(result.kind.begin(), result.kind.end(), '_', ' ');
  while (words >> word) {
    if (word == "read" || word == "write") {
      result.write = word == "write";
      continue;
    }
    CHECK(static_cast<bool>(words >> value));
    if (word == "size") {
      result.size = static_cast<std::uint32_t>(number(value));
    } else if (word == "block") {
      result.block = place(value);
    } else {
      CHECK(word == "thread");
      result.thread = place(value);
    }
  }
  return result;
}

Buffer buffer(std::istringstream& words) {
  Buffer result;
  std::string bytes, raw, first;
  words >> result.name >> bytes;
  result.bytes = number(bytes);
  if (words >> raw >> first) result.written = number(first);
  return result;
}

class VersionReader {
 public:
  explicit VersionReader(bool bug) : bug_(bug) {}

  void begin(const std::string& name) {
    version_ = {.name = name, .text = kPreamble};
    line_ = 1;
    for (const char c : version_.text) line_ += c == '\n';
    in_body_ = false;
  }

  Version end() {
    version_.text += "ret;\n}\n";
    return version_;
  }

  void read(std::string line) {
    line.erase(0, line.find_first_not_of(' '));
    for (const auto& [word, mine] : {std::pair{"bug ", bug_}, std::pair{"clean ", !bug_}}) {
      if (!line.starts_with(word)) continue;
      if (!mine) return;
      line.erase(0, std::string(word).size());
    }
    if (!in_body_) return setting(line);
    if (line.ends_with("// FAULT")) version_.marked.insert(line_);
    version_.text += line + "\n";
    ++line_;
  }

 private:
  void setting(const std::string& line) {
    std::istringstream words(line);
    std::string word, value;
    words >> word;
    if (word == "body") {
      in_body_ = true;
    } else if (word == "expect") {
      version_.expected = expected(words);
    } else if (word == "buffer") {
      version_.buffers.push_back(buffer(words));
    } else if (word == "checks") {
      while (words >> value) {
        Checks& checks = version_.checks;
        (value == "races"      ? checks.races
         : value == "barriers" ? checks.barriers
                               : checks.uninitialised) = true;
      }
    } else {
      CHECK(static_cast<bool>(words >> value));
      one_value(word, value);
    }
  }

  void one_value(const std::string& word, const std::string& value) {
    if (word == "grid") {
      version_.grid = extent(value);
    } else if (word == "block") {
      version_.block = extent(value);
    } else if (word == "dynamic") {
      version_.dynamic = static_cast<std::uint32_t>(number(value));
    } else if (word == "n") {
      version_.n = static_cast<std::uint32_t>(number(value));
    } else if (word == "parameters") {
      version_.parameters = number(value);
    } else if (word == "freed") {
      version_.freed.insert(value);
    } else if (word == "null") {
      version_.null.insert(value);
    } else {
      CHECK(word == "host");
      version_.host.insert(value);
    }
  }

  bool bug_;
  bool in_body_ = false;
  int line_ = 0;
  Version version_;
};

}  // namespace

std::vector<Case> read_cases(const std::string& table) {
  std::vector<Case> cases;
  VersionReader bug(true), clean(false);
  bool open = false;
  const auto close = [&] {
    if (open) cases.push_back({bug.end(), clean.end()});
  };
  std::istringstream lines(table);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.empty() || line[0] == '#') continue;
    if (line.starts_with("case ")) {
      close();
      open = true;
      bug.begin(line.substr(5));
      clean.begin(line.substr(5));
    } else {
      bug.read(line);
      clean.read(line);
    }
  }
  close();
  return cases;
}

}  // namespace partita::ptx::planted
