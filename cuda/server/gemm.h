// Matrix products, which libraries ask for: what is legal, which memory it takes, and how they are
// done on the host's cores (OpenBLAS or another BLAS where one is installed, plain loops else).
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "wire/operations.h"

namespace partita::remote::server {

// What is wrong with it by itself, or null. Sizes and steps are then below 2^31, and each operand's
// bytes below 2^63.
const char* wrong_in(const Gemm& op);

struct Operand {
  std::uint64_t at = 0, bytes = 0;
  bool operator==(const Operand&) const = default;
};
// The memory that it takes, of a legal one: C, which it writes, then what it reads: A, B, alpha,
// beta. By pointers, these are lists of addresses. Nothing where C has no element.
std::vector<Operand> operands(const Gemm& op);

// Into how many parts it is worth dividing for so many cores.
std::int64_t parts_of(const Gemm& op, int cores);
// One of `parts`: `places` holds each of operands() in this process. `stop`, asked now and then:
// leave the rest undone. `plainly`: by loops, as where no BLAS is installed.
void multiply(const Gemm& op, std::span<std::byte* const> places, std::int64_t part,
              std::int64_t parts, const std::function<bool()>& stop, bool plainly = false);

// Where an operand lies in this process; null: no memory is there.
using Reach = std::function<std::byte*(const Operand& operand, bool write)>;
// The same of one by pointers. What is wrong with a matrix that a pointer leads to, or null.
const char* multiply_each(const Gemm& op, std::span<std::byte* const> places, std::int64_t part,
                          std::int64_t parts, const std::function<bool()>& stop,
                          const Reach& reach);

// Before a process gives up the right to open files.
void load_blas();

}  // namespace partita::remote::server
