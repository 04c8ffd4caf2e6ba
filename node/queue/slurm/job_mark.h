// The mark of a job: what it asked for and where its instances are to be, at the beginning of its
// comment, which Slurm gives to prologs. job_submit.lua writes it and keeps users from changing it;
// it is the whole memory of the placer.
//   partita shapes=3g.40gb,3g.40gb nodes=g[0-3] begin=1795640048 at=g3:0.0,0.4 ; the user's words
// Shapes by their names on the board; "whole" is a GPU as it is, which Slurm itself chooses.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita::slurm {

inline constexpr const char* kWhole = "whole";
inline constexpr std::size_t kMaxShapes = 128;  // of a job

// Where an instance is: index of the GPU on its node, and its first memory slice.
struct Seat {
  int gpu = 0, start = 0;
  auto operator<=>(const Seat&) const = default;
};

struct JobMark {
  std::vector<std::string> shapes = {};
  std::string nodes = {};  // that the user asked for; empty: any
  long begin = 0;          // that the user asked for, seconds since 1970; 0: at once
  std::string node = {};   // where it is placed; empty: nowhere yet
  std::vector<Seat> seats = {};  // as many as shapes
  std::string refused = {};      // the node that had no room for it, and gave it back
  std::string words = {};  // the user's own comment
  bool operator==(const JobMark&) const = default;

  bool whole() const { return !shapes.empty() && shapes.front() == kWhole; }
  bool placed() const { return !node.empty(); }
};

// The mark in a comment; nothing: it has none, since it does not begin with "partita ". bad_input
// where it is damaged.
Result<std::optional<JobMark>> parse_mark(std::string_view comment);
std::string mark_text(const JobMark& mark);

}  // namespace partita::slurm
