#include "serve/wire/frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/unicode.h"

static_assert(std::endian::native == std::endian::little, "frames are copied as they lie");

namespace partita::serve {
namespace {

// The word that starts a frame is 1 + the index of its type in Frame; here by that index.
constexpr std::string_view kNames[] = {"HELLO", "REGION", "REFUSED", "READY", "RUN",     "DONE",
                                       "PART",  "CANCEL", "LEAVING", "DRAIN", "DRAINED", "BEAT",
                                       "FETCH", "STATE",  "FORGET",  "JOINT"};
constexpr std::size_t kFrames = std::variant_size_v<Frame>;
static_assert(std::size(kNames) == kFrames);

template <class Body, std::size_t at = 0>
constexpr std::uint32_t kind_of() {
  if constexpr (std::is_same_v<Body, std::variant_alternative_t<at, Frame>>)
    return at + 1;
  else
    return kind_of<Body, at + 1>();
}

constexpr std::size_t kMaxPlaceBytes = 4096, kMaxTextBytes = 4096, kMaxContentType = 256;
constexpr std::size_t kMaxSlotBytes =
    (2 * kMaxItemBytes) + ((2 + 4 * std::size_t{kMaxTensors}) * kSlotPage);
constexpr std::uint32_t kMaxSlots = 1u << 20;

constexpr std::uint8_t kSequences = 1, kSet = 2, kCache = 4;  // of a model

// ---- the two that fields() knows: one writes what a frame has, one reads it

class FrameWriter {
 public:
  static constexpr bool kReads = false;
  template <class Body>
  using Of = const Body;
  explicit FrameWriter(std::string& out) : out_(out) {}

  template <class Number>
  void number(Number value) {
    static_assert(std::is_arithmetic_v<Number> || std::is_enum_v<Number>);
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    out_.append(bytes, sizeof value);
  }
  void flag(bool value) { number(static_cast<std::uint8_t>(value)); }
  void nanos(std::int64_t value) { number(value); }
  void text(std::string_view text, std::size_t) {
    number(static_cast<std::uint32_t>(text.size()));
    out_ += text;
  }
  template <class Number>
  void numbers(const std::vector<Number>& numbers) {
    number(static_cast<std::uint32_t>(numbers.size()));
    out_.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number));
  }
  // A count, and so many things, each by `one`; there may be none.
  template <class Thing, class One>
  void list(const std::vector<Thing>& things, std::size_t, std::string_view, const One& one) {
    number(static_cast<std::uint32_t>(things.size()));
    for (const Thing& thing : things) one(thing);
  }
  void require(bool, std::string_view) {}

 private:
  std::string& out_;
};

// Takes values off the front; the first fault sticks and later reads give zeros.
class FrameReader {
 public:
  static constexpr bool kReads = true;
  template <class Body>
  using Of = Body;
  explicit FrameReader(std::span<const char> bytes) : rest_(bytes) {}

  template <class Number>
  void number(Number& value) {
    value = {};
    if (rest_.size() < sizeof value) return refuse("it ends too early");
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
  }
  void flag(bool& value) {
    std::uint8_t byte = 0;
    number(byte);
    require(byte <= 1, "a flag that is none");
    value = byte == 1;
  }
  void nanos(std::int64_t& value) {
    number(value);
    require(value >= 0, "a time below 0");
  }
  void text(std::string& into, std::size_t most) {
    std::uint32_t size = 0;
    number(size);
    if (size > most) refuse(fmt::format("a text of {} bytes, at most {} are allowed", size, most));
    if (size > rest_.size()) refuse("it ends too early");
    if (!fault_.empty()) return;
    into.assign(rest_.data(), size);
    rest_ = rest_.subspan(size);
  }
  // Of what follows a count there is 1 or more, and no more than can be there.
  template <class Number>
  void numbers(std::vector<Number>& into) {
    std::uint32_t count = 0;
    number(count);
    if (count < 1 || count > kMaxLinkBatch)
      refuse(fmt::format("{} entries, not 1 to {}", count, kMaxLinkBatch));
    if (count > rest_.size() / sizeof(Number)) refuse("it ends too early");
    if (!fault_.empty()) return;
    into.resize(count);
    for (Number& one : into) number(one);
  }
  template <class Thing, class One>
  void list(std::vector<Thing>& into, std::size_t most, std::string_view what, const One& one) {
    std::uint32_t count = 0;
    number(count);
    if (count > most) refuse(fmt::format("{} {}", count, what));
    for (std::uint32_t i = 0; i < count && fault_.empty(); ++i) one(into.emplace_back());
  }
  void require(bool holds, std::string_view fault) {
    if (!holds) refuse(std::string(fault));
  }
  void refuse(std::string fault) {
    if (fault_.empty()) fault_ = std::move(fault);
    rest_ = {};
  }
  void end() {
    if (!rest_.empty()) refuse(fmt::format("{} bytes too many", rest_.size()));
  }
  const std::string& fault() const { return fault_; }

 private:
  std::span<const char> rest_;
  std::string fault_;
};

template <class Io, class Body>
using In = typename Io::template Of<Body>;

// ---- what each frame has, in order

template <class Io>
void fields(Io& io, In<Io, TensorSpec>& tensor) {
  const auto sizes = [&](auto& all) {
    io.list(all, kMaxDimensions, "dimensions", [&](auto& size) { io.number(size); });
  };
  io.text(tensor.name, kMaxNameBytes);
  io.number(tensor.type);
  sizes(tensor.shape);
  io.number(tensor.text_bytes);
  io.number(tensor.batch_axis);
  io.number(tensor.open_bytes);
  sizes(tensor.usual);
  io.number(tensor.usual_value);
  io.require(std::isfinite(tensor.usual_value), "a usual value that is none");
}

template <class Io>
void fields(Io& io, In<Io, ModelSpec>& model) {
  const auto tensors = [&](auto& all) {
    io.list(all, kMaxTensors, "tensors", [&](auto& tensor) { fields(io, tensor); });
  };
  io.number(model.kind);
  io.text(model.name, kMaxNameBytes);
  io.text(model.platform, kMaxNameBytes);
  tensors(model.inputs);
  tensors(model.outputs);
  io.number(model.max_batch);
  auto flags = static_cast<std::uint8_t>((model.sequences ? kSequences : 0) +
                                         (model.set ? kSet : 0) + (model.cache ? kCache : 0));
  io.number(flags);
  io.require(flags <= kSequences + kSet + kCache, "a flag that is none");
  if constexpr (Io::kReads) {
    model.sequences = (flags & kSequences) != 0;
    model.set = (flags & kSet) != 0;
    model.cache = (flags & kCache) != 0;
  }
  io.text(model.version, kMaxNameBytes);
}

template <class Io>
void fields(Io& io, In<Io, Hello>& hello) {
  io.number(hello.version);
  if constexpr (Io::kReads)
    if (hello.version != kLinkVersion)  // what follows may look different there
      return io.refuse(fmt::format("version {} of the link, this program speaks {}", hello.version,
                                   kLinkVersion));
  io.text(hello.place, kMaxPlaceBytes);
  io.text(hello.service, kMaxNameBytes);
  fields(io, hello.model);
  if constexpr (Io::kReads) {
    if (!io.fault().empty()) return;
    if (const std::string fault = name_fault(hello.service); !fault.empty())
      io.refuse("the service's name " + fault);
    if (const auto checked = check_model("", hello.model); !checked)
      io.refuse(checked.error().message);
  }
}

template <class Io>
void fields(Io& io, In<Io, Region>& region) {
  io.number(region.slot_bytes);
  io.number(region.slots);
  io.require(region.slot_bytes >= kSlotPage && region.slot_bytes <= kMaxSlotBytes &&
                 region.slot_bytes % kSlotPage == 0,
             "slots of a size that cannot be");
  io.require(region.slots >= 1 && region.slots <= kMaxSlots, "an impossible number of slots");
}

template <class Io>
void fields(Io& io, In<Io, Refused>& refused) {
  io.text(refused.reason, kMaxTextBytes);
}

template <class Io>
void fields(Io& io, In<Io, Ready>& ready) {
  std::int32_t before = 0;
  io.list(ready.curve, kMaxLinkBatch, "points of a curve", [&](auto& point) {
    io.number(point.batch);
    io.nanos(point.nanos);
    io.require(point.batch > before && point.batch <= kMaxLinkBatch,
               "a curve whose batches do not ascend");
    before = point.batch;
  });
  io.require(!ready.curve.empty(), "a curve without points");
}

template <class Io>
void fields(Io& io, In<Io, Run>& run) {
  io.number(run.batch);
  io.nanos(run.deadline);
  io.numbers(run.slots);
}

template <class Io>
void fields(Io& io, In<Io, Done>& done) {
  io.number(done.batch);
  io.nanos(done.nanos);
  io.number(done.values);
  io.number(done.padding);
  io.number(done.set.loads);
  io.number(done.set.evictions);
  io.number(done.set.failures);
  io.number(done.set.held);
  io.nanos(done.set.nanos);
  io.numbers(done.status);
  io.require(
      std::ranges::all_of(done.status, [](auto one) { return one <= ItemStatus::cancelled; }),
      "a status of no known kind");
  io.text(done.message, kMaxTextBytes);
}

template <class Io>
void fields(Io& io, In<Io, Part>& part) {
  io.number(part.batch);
  io.number(part.item);
  io.number(part.sequence);
  io.number(part.http_status);
  io.text(part.content_type, kMaxContentType);
  io.text(part.bytes, kMaxPartBytes);
  io.require(part.item < kMaxLinkBatch, "an item outside every batch");
  // It becomes a header of an answer.
  io.require(std::ranges::all_of(part.content_type, [](char c) { return c >= ' ' && c <= '~'; }),
             "a content type with characters that no header may hold");
  const bool first = part.sequence == 0;
  io.require(first ? part.http_status >= 100 && part.http_status <= 599
                   : part.http_status == 0 && part.content_type.empty(),
             "status and content type belong to the first part, and only there");
}

template <class Io>
void fields(Io& io, In<Io, Cancel>& cancel) {
  io.number(cancel.batch);
  io.numbers(cancel.items);
  io.require(std::ranges::all_of(cancel.items, [](auto item) { return item < kMaxLinkBatch; }),
             "an item outside every batch");
}

template <class Io, class Body>
requires std::is_empty_v<Body>
void fields(Io&, Body&) {}

template <class Io>
void fields(Io& io, In<Io, FetchState>& fetch) {
  io.number(fetch.sequence);
  io.number(fetch.offset);
  io.require(fetch.offset <= kMaxItemBytes, "from behind the end of every state");
}

template <class Io>
void fields(Io& io, In<Io, StatePart>& part) {
  io.number(part.sequence);
  io.number(part.offset);
  io.number(part.total);
  io.text(part.bytes, kMaxPartBytes);
  io.require(part.total <= kMaxItemBytes && part.offset <= part.total &&
                 part.bytes.size() <= part.total - part.offset,
             "a part that does not lie in its state");
}

template <class Io>
void fields(Io& io, In<Io, ForgetStates>& forget) {
  io.numbers(forget.sequences);
}

template <class Io>
void fields(Io& io, In<Io, Joint>& joint) {
  io.number(joint.offset);
  io.number(joint.bytes);
  io.flag(joint.writable);
  io.flag(joint.own);
  io.numbers(joint.slots);
  io.require(joint.offset % kSlotPage == 0 && joint.bytes % kSlotPage == 0 && joint.bytes > 0 &&
                 joint.offset <= kMaxSlotBytes && joint.bytes <= kMaxSlotBytes,
             "a place that is none");
  if constexpr (Io::kReads) {
    std::vector<std::uint32_t> sorted = joint.slots;
    std::ranges::sort(sorted);
    io.require(std::ranges::adjacent_find(sorted) == sorted.end(), "a slot twice");
  }
}

template <std::size_t at>
Result<Frame> read_frame(FrameReader in) {
  std::variant_alternative_t<at, Frame> body;
  fields(in, body);
  in.end();
  if (!in.fault().empty()) return bad_input(fmt::format("{} frame", kNames[at]), in.fault());
  return Frame(std::move(body));
}

template <std::size_t... at>
Result<Frame> read_kind(std::uint32_t kind, const FrameReader& in, std::index_sequence<at...>) {
  constexpr Result<Frame> (*kReaders[])(FrameReader) = {read_frame<at>...};
  return kReaders[kind - 1](in);
}

template <class Body>
void write_frame(const Body& body, std::string& out) {
  out.clear();
  FrameWriter writer(out);
  writer.number(kind_of<Body>());
  fields(writer, body);
}

}  // namespace

std::string encode(const Frame& frame) {
  std::string out;
  std::visit([&](const auto& body) { write_frame(body, out); }, frame);
  CHECK(out.size() <= kMaxFrameBytes);
  return out;
}

Result<Frame> decode(std::span<const char> bytes) {
  if (bytes.size() > kMaxFrameBytes)
    return bad_input("frame",
                     fmt::format("{} bytes, at most {} are allowed", bytes.size(), kMaxFrameBytes));
  FrameReader in(bytes);
  std::uint32_t kind = 0;
  in.number(kind);
  if (!in.fault().empty()) return bad_input("frame", in.fault());
  if (kind < 1 || kind > kFrames) return bad_input("frame", fmt::format("no known kind: {}", kind));
  return read_kind(kind, in, std::make_index_sequence<kFrames>());
}

void encode_run(const Run& run, std::string& out) { write_frame(run, out); }

void encode_done(const Done& done, std::string& out) { write_frame(done, out); }

std::string link_path(const std::string& state_dir) { return state_dir + "/gateway.sock"; }

}  // namespace partita::serve
