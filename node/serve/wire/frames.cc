#include "serve/wire/frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "base/unicode.h"

static_assert(std::endian::native == std::endian::little, "frames are copied as they lie");

namespace partita::serve {
namespace {

// The word that starts a frame: 1 + the index of its type in Frame.
enum class Kind : std::uint32_t {
  hello = 1,
  region,
  refused,
  ready,
  run,
  done,
  part,
  cancel,
  leaving,
  drain,
  drained,
  beat,
  fetch_state,
  state_part,
  forget_states,
  joint
};
constexpr std::size_t kMaxPlaceBytes = 4096, kMaxTextBytes = 4096, kMaxContentType = 256;
constexpr std::size_t kMaxSlotBytes =
    (2 * kMaxItemBytes) + ((2 + 4 * std::size_t{kMaxTensors}) * kSlotPage);
constexpr std::uint32_t kMaxSlots = 1u << 20;

// ---- writing

template <class Number>
void put(std::string& out, Number value) {
  static_assert(std::is_arithmetic_v<Number> || std::is_enum_v<Number>);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<std::uint32_t>(text.size()));
  out += text;
}

template <class Number>
void put_numbers(std::string& out, const std::vector<Number>& numbers) {
  put(out, static_cast<std::uint32_t>(numbers.size()));
  out.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number));
}

void put_tensors(std::string& out, const std::vector<TensorSpec>& tensors) {
  put(out, static_cast<std::uint32_t>(tensors.size()));
  for (const TensorSpec& tensor : tensors) {
    put_text(out, tensor.name);
    put(out, tensor.type);
    put(out, static_cast<std::uint32_t>(tensor.shape.size()));
    for (const std::int64_t size : tensor.shape) put(out, size);
    put(out, static_cast<std::uint64_t>(tensor.text_bytes));
    put(out, static_cast<std::int32_t>(tensor.batch_axis));
    put(out, static_cast<std::uint64_t>(tensor.open_bytes));
    put(out, static_cast<std::uint32_t>(tensor.usual.size()));
    for (const std::int64_t size : tensor.usual) put(out, size);
    put(out, tensor.usual_value);
  }
}

constexpr std::uint8_t kSequences = 1, kSet = 2, kCache = 4;  // of a model

void write(std::string& out, const Hello& hello) {
  put(out, hello.version);
  put_text(out, hello.place);
  put_text(out, hello.service);
  put(out, hello.model.kind);
  put_text(out, hello.model.name);
  put_text(out, hello.model.platform);
  put_tensors(out, hello.model.inputs);
  put_tensors(out, hello.model.outputs);
  put(out, static_cast<std::uint32_t>(hello.model.max_batch));
  put(out,
      static_cast<std::uint8_t>((hello.model.sequences ? kSequences : 0) +
                                (hello.model.set ? kSet : 0) + (hello.model.cache ? kCache : 0)));
  put_text(out, hello.model.version);
}

void write(std::string& out, const Region& region) {
  put(out, region.slot_bytes);
  put(out, region.slots);
}

void write(std::string& out, const Refused& refused) { put_text(out, refused.reason); }

void write(std::string& out, const Ready& ready) {
  put(out, static_cast<std::uint32_t>(ready.curve.size()));
  for (const CurvePoint& point : ready.curve) {
    put(out, point.batch);
    put(out, point.nanos);
  }
}

void write(std::string& out, const Run& run) {
  put(out, run.batch);
  put(out, run.deadline);
  put_numbers(out, run.slots);
}

void write(std::string& out, const Done& done) {
  put(out, done.batch);
  put(out, done.nanos);
  put(out, done.values);
  put(out, done.padding);
  put(out, done.set.loads);
  put(out, done.set.evictions);
  put(out, done.set.failures);
  put(out, done.set.held);
  put(out, done.set.nanos);
  put(out, static_cast<std::uint32_t>(done.status.size()));
  out.append(reinterpret_cast<const char*>(done.status.data()), done.status.size());
  put_text(out, done.message);
}

void write(std::string& out, const Part& part) {
  put(out, part.batch);
  put(out, part.item);
  put(out, part.sequence);
  put(out, part.http_status);
  put_text(out, part.content_type);
  put_text(out, part.bytes);
}

void write(std::string& out, const Cancel& cancel) {
  put(out, cancel.batch);
  put_numbers(out, cancel.items);
}

void write(std::string&, const Leaving&) {}
void write(std::string&, const Drain&) {}
void write(std::string&, const Drained&) {}
void write(std::string&, const Beat&) {}

void write(std::string& out, const FetchState& fetch) {
  put(out, fetch.sequence);
  put(out, fetch.offset);
}

void write(std::string& out, const StatePart& part) {
  put(out, part.sequence);
  put(out, part.offset);
  put(out, part.total);
  put_text(out, part.bytes);
}

void write(std::string& out, const Joint& joint) {
  put(out, joint.offset);
  put(out, joint.bytes);
  put(out, static_cast<std::uint8_t>(joint.writable));
  put(out, static_cast<std::uint8_t>(joint.own));
  put_numbers(out, joint.slots);
}

void write(std::string& out, const ForgetStates& forget) { put_numbers(out, forget.sequences); }

// ---- reading

// Takes values off the front; the first fault sticks and later reads return zeros.
class FrameReader {
 public:
  explicit FrameReader(std::span<const char> bytes) : rest_(bytes) {}

  template <class Number>
  Number take() {
    Number value{};
    if (rest_.size() < sizeof value) {
      refuse("it ends too early");
    } else {
      std::memcpy(&value, rest_.data(), sizeof value);
      rest_ = rest_.subspan(sizeof value);
    }
    return value;
  }
  std::string text(std::size_t most) {
    const std::uint32_t size = take<std::uint32_t>();
    if (size > most) refuse(fmt::format("a text of {} bytes, at most {} are allowed", size, most));
    if (size > rest_.size()) refuse("it ends too early");
    if (!fault_.empty()) return "";
    std::string taken(rest_.data(), size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  // A count of things of `each` bytes that follow, 1 or more: no more than can be there.
  std::uint32_t count(std::size_t most, std::size_t each) {
    const std::uint32_t number = take<std::uint32_t>();
    if (number < 1 || number > most) refuse(fmt::format("{} entries, not 1 to {}", number, most));
    if (number > rest_.size() / each) refuse("it ends too early");
    return fault_.empty() ? number : 0;
  }
  template <class Number = std::uint32_t>
  std::vector<Number> numbers() {
    std::vector<Number> taken(count(kMaxLinkBatch, sizeof(Number)));
    for (Number& number : taken) number = take<Number>();
    return taken;
  }
  std::int64_t nanos() {
    const auto value = take<std::int64_t>();
    require(value >= 0, "a time below 0");
    return value;
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

std::vector<std::int64_t> read_sizes(FrameReader& in) {
  const auto dimensions = in.take<std::uint32_t>();
  if (dimensions > kMaxDimensions) in.refuse(fmt::format("{} dimensions", dimensions));
  std::vector<std::int64_t> sizes;
  for (std::uint32_t d = 0; d < dimensions && in.fault().empty(); ++d)
    sizes.push_back(in.take<std::int64_t>());
  return sizes;
}

std::vector<TensorSpec> read_tensors(FrameReader& in) {
  const auto number = in.take<std::uint32_t>();
  if (number > kMaxTensors) in.refuse(fmt::format("{} tensors", number));
  std::vector<TensorSpec> tensors;
  for (std::uint32_t i = 0; i < number && in.fault().empty(); ++i) {
    TensorSpec tensor{.name = in.text(kMaxNameBytes), .type = in.take<DataType>(), .shape = {}};
    tensor.shape = read_sizes(in);
    tensor.text_bytes = in.take<std::uint64_t>();
    tensor.batch_axis = in.take<std::int32_t>();
    tensor.open_bytes = in.take<std::uint64_t>();
    tensor.usual = read_sizes(in);
    tensor.usual_value = in.take<double>();
    in.require(std::isfinite(tensor.usual_value), "a usual value that is none");
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void read(FrameReader& in, Hello& hello) {
  hello.version = in.take<std::uint32_t>();
  if (hello.version != kLinkVersion) {  // what follows may look different there
    in.refuse(
        fmt::format("version {} of the link, this program speaks {}", hello.version, kLinkVersion));
    return;
  }
  hello.place = in.text(kMaxPlaceBytes);
  hello.service = in.text(kMaxNameBytes);
  hello.model.kind = in.take<ModelKind>();
  hello.model.name = in.text(kMaxNameBytes);
  hello.model.platform = in.text(kMaxNameBytes);
  hello.model.inputs = read_tensors(in);
  hello.model.outputs = read_tensors(in);
  const auto batch = in.take<std::uint32_t>();
  hello.model.max_batch = static_cast<int>(std::min<std::uint32_t>(batch, kMaxLinkBatch + 1));
  const auto flags = in.take<std::uint8_t>();
  in.require(flags <= kSequences + kSet + kCache, "a flag that is none");
  hello.model.sequences = (flags & kSequences) != 0;
  hello.model.set = (flags & kSet) != 0;
  hello.model.cache = (flags & kCache) != 0;
  hello.model.version = in.text(kMaxNameBytes);
  if (!in.fault().empty()) return;
  if (const std::string fault = name_fault(hello.service); !fault.empty()) {
    in.refuse("the service's name " + fault);
  }
  if (const auto checked = check_model("", hello.model); !checked) {
    in.refuse(checked.error().message);
  }
}

void read(FrameReader& in, Region& region) {
  region.slot_bytes = in.take<std::uint64_t>();
  region.slots = in.take<std::uint32_t>();
  in.require(region.slot_bytes >= kSlotPage && region.slot_bytes <= kMaxSlotBytes &&
                 region.slot_bytes % kSlotPage == 0,
             "slots of a size that cannot be");
  in.require(region.slots >= 1 && region.slots <= kMaxSlots, "an impossible number of slots");
}

void read(FrameReader& in, Refused& refused) { refused.reason = in.text(kMaxTextBytes); }

void read(FrameReader& in, Ready& ready) {
  constexpr std::size_t kEach = sizeof(std::int32_t) + sizeof(std::int64_t);
  const std::uint32_t number = in.count(kMaxLinkBatch, kEach);
  std::int32_t before = 0;
  for (std::uint32_t i = 0; i < number; ++i) {
    const CurvePoint point{.batch = in.take<std::int32_t>(), .nanos = in.nanos()};
    in.require(point.batch > before && point.batch <= kMaxLinkBatch,
               "a curve whose batches do not ascend");
    before = point.batch;
    ready.curve.push_back(point);
  }
}

void read(FrameReader& in, Run& run) {
  run.batch = in.take<std::uint64_t>();
  run.deadline = in.nanos();
  run.slots = in.numbers();
}

void read(FrameReader& in, Done& done) {
  done.batch = in.take<std::uint64_t>();
  done.nanos = in.nanos();
  done.values = in.take<std::uint64_t>();
  done.padding = in.take<std::uint64_t>();
  done.set = {.loads = in.take<std::uint32_t>(),
              .evictions = in.take<std::uint32_t>(),
              .failures = in.take<std::uint32_t>(),
              .held = in.take<std::uint32_t>(),
              .nanos = in.nanos()};
  done.status.resize(in.count(kMaxLinkBatch, 1));
  for (ItemStatus& status : done.status) {
    status = in.take<ItemStatus>();
    in.require(status <= ItemStatus::cancelled, "a status of no known kind");
  }
  done.message = in.text(kMaxTextBytes);
}

void read(FrameReader& in, Part& part) {
  part.batch = in.take<std::uint64_t>();
  part.item = in.take<std::uint32_t>();
  part.sequence = in.take<std::uint32_t>();
  part.http_status = in.take<std::uint32_t>();
  part.content_type = in.text(kMaxContentType);
  part.bytes = in.text(kMaxPartBytes);
  in.require(part.item < kMaxLinkBatch, "an item outside every batch");
  // It becomes a header of an answer.
  in.require(std::ranges::all_of(part.content_type, [](char c) { return c >= ' ' && c <= '~'; }),
             "a content type with characters that no header may hold");
  const bool first = part.sequence == 0;
  in.require(first ? part.http_status >= 100 && part.http_status <= 599
                   : part.http_status == 0 && part.content_type.empty(),
             "status and content type belong to the first part, and only there");
}

void read(FrameReader& in, Cancel& cancel) {
  cancel.batch = in.take<std::uint64_t>();
  cancel.items = in.numbers();
  in.require(std::ranges::all_of(cancel.items, [](auto item) { return item < kMaxLinkBatch; }),
             "an item outside every batch");
}

void read(FrameReader&, Leaving&) {}
void read(FrameReader&, Drain&) {}
void read(FrameReader&, Drained&) {}
void read(FrameReader&, Beat&) {}

void read(FrameReader& in, FetchState& fetch) {
  fetch.sequence = in.take<std::uint64_t>();
  fetch.offset = in.take<std::uint64_t>();
  in.require(fetch.offset <= kMaxItemBytes, "from behind the end of every state");
}

void read(FrameReader& in, StatePart& part) {
  part.sequence = in.take<std::uint64_t>();
  part.offset = in.take<std::uint64_t>();
  part.total = in.take<std::uint64_t>();
  part.bytes = in.text(kMaxPartBytes);
  in.require(part.total <= kMaxItemBytes && part.offset <= part.total &&
                 part.bytes.size() <= part.total - part.offset,
             "a part that does not lie in its state");
}

void read(FrameReader& in, ForgetStates& forget) { forget.sequences = in.numbers<std::uint64_t>(); }

void read(FrameReader& in, Joint& joint) {
  joint.offset = in.take<std::uint64_t>();
  joint.bytes = in.take<std::uint64_t>();
  const auto writable = in.take<std::uint8_t>(), own = in.take<std::uint8_t>();
  joint.writable = writable == 1;
  joint.own = own == 1;
  joint.slots = in.numbers();
  in.require(writable <= 1 && own <= 1, "a flag that is none");
  in.require(joint.offset % kSlotPage == 0 && joint.bytes % kSlotPage == 0 && joint.bytes > 0 &&
                 joint.offset <= kMaxSlotBytes && joint.bytes <= kMaxSlotBytes,
             "a place that is none");
  std::vector<std::uint32_t> sorted = joint.slots;
  std::ranges::sort(sorted);
  in.require(std::ranges::adjacent_find(sorted) == sorted.end(), "a slot twice");
}

template <class Body>
Result<Frame> read_frame(FrameReader in, std::string_view name) {
  Body body;
  read(in, body);
  in.end();
  if (!in.fault().empty()) return bad_input(fmt::format("{} frame", name), in.fault());
  return Frame(std::move(body));
}

void begin(std::string& out, Kind kind) {
  out.clear();
  put(out, kind);
}

}  // namespace

std::string encode(const Frame& frame) {
  std::string out;
  begin(out, static_cast<Kind>(frame.index() + 1));
  std::visit([&](const auto& body) { write(out, body); }, frame);
  CHECK(out.size() <= kMaxFrameBytes);
  return out;
}

Result<Frame> decode(std::span<const char> bytes) {
  if (bytes.size() > kMaxFrameBytes) {
    return bad_input("frame",
                     fmt::format("{} bytes, at most {} are allowed", bytes.size(), kMaxFrameBytes));
  }
  FrameReader in(bytes);
  const auto kind = in.take<Kind>();
  if (!in.fault().empty()) return bad_input("frame", in.fault());
  switch (kind) {
    case Kind::hello:
      return read_frame<Hello>(in, "HELLO");
    case Kind::region:
      return read_frame<Region>(in, "REGION");
    case Kind::refused:
      return read_frame<Refused>(in, "REFUSED");
    case Kind::ready:
      return read_frame<Ready>(in, "READY");
    case Kind::run:
      return read_frame<Run>(in, "RUN");
    case Kind::done:
      return read_frame<Done>(in, "DONE");
    case Kind::part:
      return read_frame<Part>(in, "PART");
    case Kind::cancel:
      return read_frame<Cancel>(in, "CANCEL");
    case Kind::leaving:
      return read_frame<Leaving>(in, "LEAVING");
    case Kind::drain:
      return read_frame<Drain>(in, "DRAIN");
    case Kind::drained:
      return read_frame<Drained>(in, "DRAINED");
    case Kind::beat:
      return read_frame<Beat>(in, "BEAT");
    case Kind::fetch_state:
      return read_frame<FetchState>(in, "FETCH");
    case Kind::state_part:
      return read_frame<StatePart>(in, "STATE");
    case Kind::forget_states:
      return read_frame<ForgetStates>(in, "FORGET");
    case Kind::joint:
      return read_frame<Joint>(in, "JOINT");
  }
  return bad_input("frame", fmt::format("no known kind: {}", static_cast<std::uint32_t>(kind)));
}

void encode_run(const Run& run, std::string& out) {
  begin(out, Kind::run);
  write(out, run);
}

void encode_done(const Done& done, std::string& out) {
  begin(out, Kind::done);
  write(out, done);
}

std::string link_path(const std::string& state_dir) { return state_dir + "/gateway.sock"; }

}  // namespace partita::serve
