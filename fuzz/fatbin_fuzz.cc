// Fat binaries and images as programs carry them: members, their decompression, PTX layouts.
#include "image/fatbin.h"
#include "image/layout.h"
#include "target.h"

FUZZ_TARGET(fatbin) {
  namespace image = partita::remote::image;
  const image::Blob blob(reinterpret_cast<const std::byte*>(data), size);
  const auto bare = image::bare_member(blob);
  std::vector<image::Member> members;
  if (auto found = image::members_of(blob)) members = *std::move(found);
  if (bare) members.push_back(*bare);
  for (const image::Member& member : members) {
    if (member.raw_bytes > (1 << 20)) continue;  // slow, not wrong
    const auto raw = image::unpacked(member);
    if (!raw || member.kind != image::MemberKind::ptx) continue;
    const auto layouts =
        image::ptx_layouts({reinterpret_cast<const char*>(raw->data()), raw->size()});
    static_cast<void>(layouts);
  }
  static_cast<void>(image::choose(members, 90, false));
  static_cast<void>(image::targets_text(members));
  return 0;
}
