#include "ptx/matrix.h"

namespace partita::ptx {

std::uint32_t element_count(const Fragment& fragment) {
  const std::uint32_t bytes = fragment.element == Element::f64 ? 8 : 4;
  return static_cast<std::uint32_t>(fragment.slots.size()) * bytes / bytes_of(fragment.element);
}

void find_elements(Fragment& fragment) {
  const std::uint32_t size = bytes_of(fragment.element),
                      wide = fragment.element == Element::f64 ? 8 : 4;
  const std::uint32_t count = element_count(fragment), each = wide / size;
  fragment.elements.clear();
  if (fragment.rows == 0) return;  // rows of halves, which lie as they come
  for (std::uint32_t lane = 0; lane < 32; ++lane)
    for (std::uint32_t e = 0; e < count; ++e) {
      const Position at = position(fragment, lane, e);
      fragment.elements.push_back({fragment.slots[e / each] + lane * wide + e % each * size,
                                   at.row * fragment.columns + at.column});
    }
}

Position position(const Fragment& fragment, std::uint32_t lane, std::uint32_t e) {
  if (!fragment.native) {
    const std::uint32_t each = element_count(fragment);
    const std::uint32_t at = (lane * each + e) % (fragment.rows * fragment.columns);
    return {at / fragment.columns, at % fragment.columns};
  }
  const std::uint32_t group = lane / 4, thread = lane % 4;
  if (fragment.role == Role::c) return {group + 8 * (e / 2), 2 * thread + e % 2};
  // Neighbours along k that one register holds; b's k are its rows.
  const std::uint32_t together =
      fragment.element == Element::f64 ? 1 : 4 / bytes_of(fragment.element);
  const std::uint32_t inner = together * thread + e % together, piece = e / together;
  if (fragment.role == Role::b) return {inner + 4 * together * piece, group};
  const std::uint32_t halves = fragment.rows / 8;  // registers of a in turn: rows, then columns
  return {group + 8 * (piece % halves), inner + 4 * together * (piece / halves)};
}

}  // namespace partita::ptx
