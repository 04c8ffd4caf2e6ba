#include "base/large_pages.h"

#include <malloc.h>
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

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_TOP_PAD, 1 << 20);
#endif
}

}  // namespace partita
