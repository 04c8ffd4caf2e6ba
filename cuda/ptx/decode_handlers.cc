// Which handler decodes which opcode.
#include "ptx/decoder.h"

namespace partita::ptx {

const std::map<std::string_view, Decoder::Handler>& Decoder::handlers() {
  // clang-format off
  static const std::map<std::string_view, Handler> kHandlers = {
      {"add", &Decoder::on_arithmetic}, {"sub", &Decoder::on_arithmetic},
      {"mul", &Decoder::on_arithmetic}, {"min", &Decoder::on_arithmetic},
      {"max", &Decoder::on_arithmetic}, {"div", &Decoder::on_arithmetic},
      {"rem", &Decoder::on_arithmetic}, {"addc", &Decoder::on_carry},
      {"subc", &Decoder::on_carry}, {"neg", &Decoder::on_float1}, {"abs", &Decoder::on_float1},
      {"sqrt", &Decoder::on_float1}, {"rcp", &Decoder::on_float1}, {"rsqrt", &Decoder::on_float1},
      {"sin", &Decoder::on_float1}, {"cos", &Decoder::on_float1}, {"ex2", &Decoder::on_float1},
      {"lg2", &Decoder::on_float1}, {"tanh", &Decoder::on_float1}, {"not", &Decoder::on_integer1},
      {"cnot", &Decoder::on_integer1}, {"brev", &Decoder::on_integer1},
      {"and", &Decoder::on_logic}, {"or", &Decoder::on_logic}, {"xor", &Decoder::on_logic},
      {"fma", &Decoder::on_fma}, {"mad", &Decoder::on_mad}, {"madc", &Decoder::on_mad},
      {"mul24", &Decoder::on_mul24}, {"mad24", &Decoder::on_mul24}, {"shl", &Decoder::on_shift},
      {"shr", &Decoder::on_shift}, {"shf", &Decoder::on_funnel}, {"popc", &Decoder::on_count},
      {"clz", &Decoder::on_count}, {"bfind", &Decoder::on_count}, {"bfe", &Decoder::on_field},
      {"bfi", &Decoder::on_field}, {"dp4a", &Decoder::on_dot}, {"dp2a", &Decoder::on_dot},
      {"lop3", &Decoder::on_three}, {"prmt", &Decoder::on_three}, {"fns", &Decoder::on_three},
      {"sad", &Decoder::on_three}, {"bmsk", &Decoder::on_three},
      {"copysign", &Decoder::on_copysign}, {"testp", &Decoder::on_testp},
      {"setp", &Decoder::on_setp}, {"set", &Decoder::on_set}, {"selp", &Decoder::on_selp},
      {"slct", &Decoder::on_slct}, {"cvt", &Decoder::on_cvt}, {"mov", &Decoder::on_mov},
      {"cvta", &Decoder::on_cvta}, {"isspacep", &Decoder::on_isspacep}, {"ld", &Decoder::on_ld},
      {"ldu", &Decoder::on_ld}, {"st", &Decoder::on_st}, {"atom", &Decoder::on_atom},
      {"red", &Decoder::on_atom}, {"prefetch", &Decoder::on_prefetch},
      {"prefetchu", &Decoder::on_prefetch}, {"cp", &Decoder::on_cp_async},
      {"membar", &Decoder::on_nothing}, {"fence", &Decoder::on_nothing},
      {"nanosleep", &Decoder::on_prefetch}, {"griddepcontrol", &Decoder::on_prefetch},
      {"bra", &Decoder::on_bra}, {"brx", &Decoder::on_brx}, {"call", &Decoder::on_call},
      {"ret", &Decoder::on_ret}, {"exit", &Decoder::on_ret}, {"trap", &Decoder::on_trap},
      {"brkpt", &Decoder::on_nothing}, {"bar", &Decoder::on_bar}, {"barrier", &Decoder::on_bar},
      {"shfl", &Decoder::on_shfl}, {"vote", &Decoder::on_vote},
      {"activemask", &Decoder::on_activemask}, {"match", &Decoder::on_match},
      {"redux", &Decoder::on_redux}, {"elect", &Decoder::on_elect},
      {"mbarrier", &Decoder::on_mbarrier}, {"mma", &Decoder::on_mma},
      {"wmma", &Decoder::on_wmma}, {"ldmatrix", &Decoder::on_ldmatrix},
  };
  // clang-format on
  return kHandlers;
}

}  // namespace partita::ptx
