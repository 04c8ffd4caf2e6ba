// Numbers of cuDNN's backend interface that both ends of a session know: types of descriptors,
// names of a pack's attributes, types of attributes and the bytes of their elements.
#pragma once

#include <cstddef>

namespace partita::remote::dnn {

inline constexpr int kVariantPack = 16;  // cudnnBackendDescriptorType_t
// cudnnBackendAttributeName_t
inline constexpr int kUniqueIds = 1000, kPointers = 1001, kWorkspace = 1003;
// cudnnBackendAttributeType_t
inline constexpr int kHandle = 0, kInteger = 3, kAddress = 6, kDescriptor = 15;

// Of an element in the memory of whoever calls cuDNN; 0: of no type that we know.
constexpr std::size_t bytes_of(int type) {
  switch (type) {
    case kHandle:
    case kInteger:
    case 5:  // DOUBLE
    case kAddress:
    case kDescriptor:
    case 26:  // FRACTION
      return 8;
    case 2:   // BOOLEAN
    case 24:  // CHAR
      return 1;
    default:  // FLOAT, INT32 and the enumerations
      return type > 0 && type <= 30 ? 4 : 0;
  }
}

}  // namespace partita::remote::dnn
