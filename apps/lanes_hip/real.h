// HIP's own functions, behind those that this library puts before them, the process's one router,
// and the names of its kernels.
#pragma once

#include <string>

#include "router.h"

namespace partita::lanes_hip {

// A function of libamdhip64; null where this version has none of the name.
void* real_function(const char* name);
template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(real_function(name));
}
// Where ours stands before HIP's; null where none does.
void* our_function(const char* name);

// From the first kernel on; null before. A plan that cannot be read ends the process, said why.
Router* router_if_any();
Router& router();

// What a host function or a function of a module is called on the device.
void name_kernel(const void* function, const char* name);
std::string kernel_name(const void* function, bool of_module);

}  // namespace partita::lanes_hip
