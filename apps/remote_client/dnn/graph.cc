// libcudnn's graphs of operations (its backend interface), which the server's own cuDNN plans and
// runs where it has a GPU. A descriptor collects its attributes here and goes to the server as a
// whole when it is finalized; from then on it is a number. A pack of tensors stays here. What a
// plan's first run comes to is waited for, as programs try one plan after another; later runs are
// operations of the stream.
#include <algorithm>
#include <atomic>
#include <vector>

#include "dnn.h"
#include "wire/dnn_types.h"

namespace partita::remote::shim {
namespace {

using dnn::bytes_of;
using dnn::kAddress;
using dnn::kDescriptor;
using dnn::kHandle;
using dnn::kPointers;
using dnn::kUniqueIds;
using dnn::kVariantPack;
using dnn::kWorkspace;

constexpr int kNotFinalized = 2004;  // cudnnStatus_t

struct Attribute {
  int name = 0, type = 0;
  std::int64_t elements = 0;
  std::vector<std::byte> bytes = {};
};
struct Descriptor {
  explicit Descriptor(int of) : type(of) {}
  int type;
  std::uint64_t number = 0;  // at the server; 0: not finalized
  bool packed = false;       // a pack that is finalized
  std::atomic<bool> ran = false;
  std::atomic<bool> captured = false;  // graphs need it, which may be made later
  std::vector<Attribute> attributes = {};

  const Attribute* find(int name) const {
    const auto found = std::ranges::find(attributes, name, &Attribute::name);
    return found == attributes.end() ? nullptr : &*found;
  }
};

Descriptor* at(void* descriptor) { return static_cast<Descriptor*>(descriptor); }
template <class T>
T element(const Attribute& attribute, std::size_t i) {
  T value{};
  std::memcpy(&value, attribute.bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

int set(Descriptor& descriptor, int name, int type, std::int64_t elements, const void* values) {
  if (elements < 0 || (values == nullptr && elements > 0)) return kCodes.invalid;
  if (descriptor.number != 0 || descriptor.packed) return kCodes.invalid;
  const auto* const begin = static_cast<const std::byte*>(values);
  const std::size_t bytes = bytes_of(type) * static_cast<std::size_t>(elements);
  Attribute attribute{name, type, elements, std::vector<std::byte>(begin, begin + bytes)};
  const auto known = std::ranges::find(descriptor.attributes, name, &Attribute::name);
  if (known != descriptor.attributes.end())
    *known = std::move(attribute);
  else
    descriptor.attributes.push_back(std::move(attribute));
  return 0;
}

// One attribute as the server takes it; what is wrong with it, or 0.
int put(Arguments& into, const Attribute& attribute) {
  into.put(attribute.name), into.put(attribute.type), into.put(attribute.elements);
  if (attribute.type == kHandle) return 0;
  if (attribute.type == kAddress) return kCodes.refused("an address in a descriptor of cuDNN");
  if (attribute.type != kDescriptor) {
    into.bytes(attribute.bytes.data(), attribute.bytes.size());
    return 0;
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(attribute.elements); ++i) {
    const auto* const other = element<const Descriptor*>(attribute, i);
    if (other == nullptr || other->number == 0) return kNotFinalized;
    into.put(other->number);
  }
  return 0;
}

// The answer's status; its results are there when it is 0.
int asked(const char* function, const Arguments& arguments, std::vector<std::byte>& results) {
  auto answer = session().libraries.ask(client::Libraries::kNowhere, function, arguments.all());
  if (!answer) return kCodes.of(answer.error());
  results = std::move(answer->results);
  return answer->status;
}

int finalize(Descriptor& descriptor) {
  if (descriptor.type == kVariantPack) {
    descriptor.packed = true;
    return 0;
  }
  Arguments arguments;
  arguments.put(descriptor.type);
  arguments.put(static_cast<std::uint32_t>(descriptor.attributes.size()));
  for (const Attribute& attribute : descriptor.attributes)
    if (const int wrong = put(arguments, attribute); wrong != 0) return wrong;
  std::vector<std::byte> number;
  const int status = asked("cudnnBackendFinalize", arguments, number);
  if (status != 0) return status;
  if (number.size() != sizeof(descriptor.number)) return kCodes.failed;
  std::memcpy(&descriptor.number, number.data(), sizeof(descriptor.number));
  return 0;
}

// What the program set itself.
int get_own(const Attribute& attribute, int type, std::int64_t room, std::int64_t* elements,
            void* values) {
  if (attribute.type != type) return kCodes.invalid;
  if (elements != nullptr) *elements = attribute.elements;
  const auto count = static_cast<std::size_t>(std::min(room, attribute.elements));
  if (values != nullptr && count > 0)
    std::memcpy(values, attribute.bytes.data(), count * bytes_of(type));
  return 0;
}

int get(const Descriptor& descriptor, int name, int type, std::int64_t room, std::int64_t* elements,
        void* values) {
  if (room < 0) return kCodes.invalid;
  if (const Attribute* own = descriptor.find(name); own != nullptr && type != kDescriptor)
    return get_own(*own, type, room, elements, values);
  if (descriptor.number == 0) return kNotFinalized;
  const auto wanted = [&](std::int64_t i) { return static_cast<Descriptor**>(values)[i]; };
  if (values == nullptr) room = 0;
  int kind = 0;  // of the descriptors that come
  for (std::int64_t i = 0; type == kDescriptor && i < room; ++i) {
    if (wanted(i) == nullptr) return kCodes.invalid;
    kind = wanted(i)->type;
  }
  Arguments arguments;
  arguments.put(descriptor.number), arguments.put(name), arguments.put(type);
  arguments.put(room), arguments.put(kind);
  std::vector<std::byte> results;
  const int status = asked("cudnnBackendGetAttribute", arguments, results);
  if (status != 0) return status;
  std::int64_t all = 0;
  if (results.size() < sizeof(all)) return kCodes.failed;
  std::memcpy(&all, results.data(), sizeof(all));
  if (elements != nullptr) *elements = all;
  const Bytes come = Bytes(results).subspan(sizeof(all));
  if (come.size() > static_cast<std::size_t>(room) * bytes_of(type)) return kCodes.failed;
  if (type != kDescriptor) {
    if (!come.empty()) std::memcpy(values, come.data(), come.size());
    return 0;
  }
  for (std::size_t i = 0; i < come.size() / 8; ++i)
    std::memcpy(&wanted(static_cast<std::int64_t>(i))->number, come.data() + i * 8, 8);
  return 0;
}

// A tensor of a run: an address of the device, or a value in the program's memory.
struct Tensors {
  const Attribute *ids, *places;
  void put_into(Arguments& into) const {
    const auto count = static_cast<std::size_t>(ids->elements);
    into.put(static_cast<std::uint32_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
      const auto place = element<std::uint64_t>(*places, i);
      const bool by_value = place != 0 && !session().memory.contains(place);
      into.put(element<std::int64_t>(*ids, i));
      into.put(std::uint32_t{by_value});
      into.put(by_value ? value_at(place) : place);
    }
  }
  // No value is longer than 8 bytes, and one that is lies at a multiple of 8.
  static std::uint64_t value_at(std::uint64_t place) {
    std::uint64_t value = 0;
    std::memcpy(&value, reinterpret_cast<const void*>(place), place % 8 == 0 ? 8 : 4);
    return value;
  }
};

int execute(void* handle, Descriptor& plan, const Descriptor& pack) {
  const Attribute* const ids = pack.find(kUniqueIds);
  const Attribute* const places = pack.find(kPointers);
  const Attribute* const workspace = pack.find(kWorkspace);
  if (!pack.packed || plan.number == 0 || ids == nullptr || places == nullptr ||
      ids->elements != places->elements)
    return kCodes.invalid;
  Arguments arguments;
  arguments.add(plan.number);
  arguments.add(Tensors{ids, places});
  arguments.add(workspace == nullptr || workspace->elements == 0
                    ? nullptr
                    : element<const void*>(*workspace, 0));
  const std::uint64_t stream = number_of(as<Handle>(handle).stream);
  constexpr const char* kExecute = "cudnnBackendExecute";
  const bool captured = is_captured(as<Handle>(handle).stream);
  if (captured) plan.captured = true;
  if (plan.ran || captured)
    return kCodes.of(session().libraries.call(stream, kExecute, arguments.all()));
  const auto answer = session().libraries.ask(stream, kExecute, arguments.all());
  if (!answer) return kCodes.of(answer.error());
  plan.ran = answer->status == 0;
  return answer->status;
}

}  // namespace

CUDA_EXPORT int cudnnBackendCreateDescriptor(int type, void** descriptor) {
  return kCodes.answered([&] {
    if (descriptor == nullptr) return kCodes.invalid;
    *descriptor = nullptr;
    if (!session().libraries.may_be())
      return kCodes.refused("graphs of operations (cudnnBackend...), on this device");
    *descriptor = new Descriptor(type);
    return 0;
  });
}
CUDA_EXPORT int cudnnBackendDestroyDescriptor(void* descriptor) {
  return kCodes.answered([&] {
    if (descriptor == nullptr) return 0;
    const std::uint64_t number = at(descriptor)->captured ? 0 : at(descriptor)->number;
    delete at(descriptor);
    if (number == 0) return 0;
    Arguments arguments;
    arguments.put(number);
    return kCodes.of(session().libraries.call(client::Libraries::kNowhere,
                                              "cudnnBackendDestroyDescriptor", arguments.all()));
  });
}
CUDA_EXPORT int cudnnBackendInitialize(void* descriptor) {
  return descriptor == nullptr ? kCodes.invalid : 0;
}
CUDA_EXPORT int cudnnBackendSetAttribute(void* descriptor, int name, int type,
                                         std::int64_t elements, const void* values) {
  return kCodes.answered([&] {
    return descriptor == nullptr ? kCodes.invalid
                                 : set(*at(descriptor), name, type, elements, values);
  });
}
CUDA_EXPORT int cudnnBackendGetAttribute(void* descriptor, int name, int type, std::int64_t room,
                                         std::int64_t* elements, void* values) {
  return kCodes.answered([&] {
    return descriptor == nullptr ? kCodes.invalid
                                 : get(*at(descriptor), name, type, room, elements, values);
  });
}
CUDA_EXPORT int cudnnBackendFinalize(void* descriptor) {
  return kCodes.answered([&] {
    if (descriptor == nullptr) return kCodes.invalid;
    return at(descriptor)->number != 0 ? 0 : finalize(*at(descriptor));
  });
}
CUDA_EXPORT int cudnnBackendExecute(void* handle, void* plan, void* pack) {
  return kCodes.answered([&] {
    if (handle == nullptr) return kCodes.not_ready;
    return plan == nullptr || pack == nullptr ? kCodes.invalid
                                              : execute(handle, *at(plan), *at(pack));
  });
}

}  // namespace partita::remote::shim
