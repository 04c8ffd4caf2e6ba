// Functions of NVIDIA's libraries that programs call and a back end with a GPU carries out with the
// libraries installed there: which there are, and what their arguments are on the wire. A program's
// descriptors travel by what they say; handles and work areas of the host are the server's own.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "server/backend.h"

namespace partita::remote::server {

enum class VendorLibrary : std::uint8_t { solver, dnn, blas };

// Kinds of arguments, a letter each; behind it the bytes on the wire.
//   h  the library's handle, on the call's stream          0
//   i  int                                                 4
//   l  long long, size_t                                   8
//   d  double                                              8
//   p  address in device memory, or null                   8
//   f  a factor in the host's memory, at most 16 bytes    16
//   w  work area in the host's memory, of as many bytes
//      as the next argument (an l) says                    0
//   o  where an int is answered                            0
//   O  where a size_t is answered                          0
//   t  tensor of cuDNN       u32 dimensions (0: null), i32 type, i32 sizes, i32 steps
//   r  recurrent layers of cuDNN  12 i32, u32 as cudnnSetRNNDescriptor_v8 has them,
//                            float dropped, u64 its states, their bytes, seed
//   x  sequences of them     u32 how many (0: null); i32 type, layout, longest, width, u64 filling,
//                            i32 lengths
//   D  a dropout that is made for the call                0
//   F  float                                              4
//   T  tensor that is answered: as t, with 8 sizes and 8 steps             0
//   A  address that is answered                           0
//   v  activation of cuDNN   u32 is there; i32 mode, i32 NaNs, double coefficient
//   e  settings of Jacobi's method for eigenvalues, g for singular values
//                            double tolerance, i32 sweeps, i32 sorted (below 0: the usual)
//   q  the solver's own settings, the usual ones           0
//   V  tensors of a cuDNN graph  u32 count; each i64 id, u32 by value, u64 address or value
//   B  what only the function itself understands           the rest
// A function whose kinds begin with R answers a size_t instead of a status.
struct LibraryFunction {
  std::string_view name;
  std::string_view kinds;
  VendorLibrary library = VendorLibrary::solver;
  bool asked() const { return kinds.find_first_of("oOTABR") != kinds.npos; }
};
// nullptr: none of those.
const LibraryFunction* library_function(std::string_view name);

inline constexpr std::size_t kStatesAt = 56;  // of r: where the address of the dropout's states is

struct LibraryArgument {
  char kind = 0;
  std::uint64_t word = 0;                 // of i, l, d, p: its bits
  std::span<const std::byte> bytes = {};  // as on the wire
};
// The arguments that the bytes hold, in the function's order; kInvalidValue where they are others.
Answered<std::vector<LibraryArgument>> arguments_of(const LibraryFunction& function,
                                                    std::span<const std::byte> bytes);
// Every address in device memory among them.
std::vector<std::uint64_t> addresses_in(const std::vector<LibraryArgument>& arguments);

struct GraphTensor {  // of V
  std::int64_t id = 0;
  bool by_value = false;
  std::uint64_t word = 0;
};
std::vector<GraphTensor> graph_tensors(std::span<const std::byte> bytes);

// Reads numbers one behind the other; `good` is false once there were too few.
struct WireReader {
  std::span<const std::byte> left;
  bool good = true;
  template <class T>
  T take() {
    T value{};
    const std::span<const std::byte> bytes = some(sizeof(T));
    if (good) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> some(std::size_t bytes) {
    good = good && left.size() >= bytes;
    if (!good) return {};
    const std::span<const std::byte> taken = left.first(bytes);
    left = left.subspan(bytes);
    return taken;
  }
};

}  // namespace partita::remote::server
