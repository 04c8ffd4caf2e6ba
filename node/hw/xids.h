// XIDs: the numbers by which NVIDIA's driver reports what goes wrong on a GPU, and what its maker
// says is to be done at once. Which of them say that a GPU must not be used until it was reset, and
// which are the fault of a program on it, is decided by this table alone.
// Source: NVIDIA, "Analyzing Xid Errors with the Xid Catalog", column "Immediate Action", for GPUs
// since Ampere, https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, read in
// November 2026. Numbers that the catalogue calls unused are left out. Pure data.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace partita::hw {

enum class XidAction : std::uint8_t {
  ignore,        // nothing, or nothing at once
  restart_app,   // the program that met it is to be started again; the GPU is fine
  reset_gpu,     // the GPU is to be reset before anything runs on it
  restart_node,  // the node is to be started again
  look,          // the number alone does not tell: what the driver recommends is asked of it
};

struct Xid {
  int code = 0;
  XidAction action = XidAction::ignore;
  std::string_view what;  // for people, a few words
};

// By number.
std::span<const Xid> xid_catalogue();
// Null for a number that the catalogue does not have, or calls unused.
const Xid* find_xid(int code);
// reset_gpu and restart_node, ascending.
std::vector<int> xids_that_take_out();
const char* to_string(XidAction action);

}  // namespace partita::hw
