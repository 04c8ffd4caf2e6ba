#include "base/large_pages.h"

#include <sys/mman.h>

#include <new>

namespace partita {

LargePages large_page() {
  constexpr std::size_t kBytes = kLargePageNumbers * sizeof(double);
  LargePages block(static_cast<double*>(std::aligned_alloc(kBytes, kBytes)));
  if (!block) throw std::bad_alloc();
  madvise(block.get(), kBytes, MADV_HUGEPAGE);  // a wish: refused, it is memory all the same
  return block;
}

}  // namespace partita
