#include "drivers/green_ctx/probe_ptx.h"

namespace partita::drivers::green_ctx {

const char* const kProbePtx = R"(.version 7.0
.target sm_70
.address_size 64

.visible .entry partita_noting(.param .u64 p_cells, .param .u64 p_counter,
                               .param .u64 p_flag, .param .u64 p_hold)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %d<12>;
  mov.u32 %r0, %tid.x;
  setp.ne.u32 %p0, %r0, 0;
  @%p0 bra DONE;
  ld.param.u64 %d0, [p_cells];
  ld.param.u64 %d1, [p_counter];
  ld.param.u64 %d2, [p_flag];
  ld.param.u64 %d3, [p_hold];
  cvta.to.global.u64 %d0, %d0;
  cvta.to.global.u64 %d1, %d1;
  atom.global.add.u64 %d4, [%d1], 1;
NAP:
  setp.eq.u64 %p0, %d3, 0;
  @%p0 bra AWAKE;
  nanosleep.u32 1000;
  sub.u64 %d3, %d3, 1;
  bra NAP;
AWAKE:
  setp.eq.u64 %p0, %d2, 0;
  @%p0 bra OPEN;
  cvta.to.global.u64 %d2, %d2;
WAIT:
  ld.relaxed.sys.global.u32 %r1, [%d2];
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra OPEN;
  nanosleep.u32 1000;
  bra WAIT;
OPEN:
  mov.u32 %r2, %ctaid.x;
  mul.wide.u32 %d5, %r2, 32;
  add.u64 %d6, %d0, %d5;
  atom.global.add.u64 %d7, [%d6], 1;
  mov.u32 %r3, %smid;
  cvt.u64.u32 %d8, %r3;
  st.global.u64 [%d6+8], %d8;
  add.u64 %d9, %d4, 1;
  st.global.u64 [%d6+16], %d9;
  atom.global.add.u64 %d10, [%d1], 1;
  add.u64 %d11, %d10, 1;
  st.global.u64 [%d6+24], %d11;
DONE:
  ret;
}

.visible .entry partita_computing(.param .u64 p_rounds, .param .u64 p_sink)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [p_rounds];
  ld.param.u64 %d1, [p_sink];
  cvta.to.global.u64 %d1, %d1;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r3, %r0, %r1, %r2;
  cvt.u64.u32 %d2, %r3;
STEP:
  setp.eq.u64 %p0, %d0, 0;
  @%p0 bra END;
  mad.lo.u64 %d2, %d2, 6364136223846793005, 1442695040888963407;
  sub.u64 %d0, %d0, 1;
  bra STEP;
END:
  setp.ne.u64 %p1, %d2, 11400714819323198485;
  @%p1 bra DONE;
  st.global.u64 [%d1], %d2;
DONE:
  ret;
}

.visible .entry partita_reading(.param .u64 p_memory, .param .u64 p_mask,
                                .param .u64 p_steps, .param .u64 p_sink)
{
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  .reg .b64 %d<14>;
  ld.param.u64 %d0, [p_memory];
  ld.param.u64 %d1, [p_mask];
  ld.param.u64 %d2, [p_steps];
  ld.param.u64 %d3, [p_sink];
  cvta.to.global.u64 %d0, %d0;
  cvta.to.global.u64 %d3, %d3;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %tid.x;
  cvt.u64.u32 %d4, %r0;
  mul.lo.u64 %d4, %d4, %d2;
  mul.lo.u64 %d4, %d4, 4096;
  mul.wide.u32 %d5, %r1, 16;
  add.u64 %d4, %d4, %d5;
  mov.u64 %d6, 0;
STEP:
  setp.eq.u64 %p0, %d2, 0;
  @%p0 bra END;
  and.b64 %d7, %d4, %d1;
  add.u64 %d8, %d0, %d7;
  ld.global.cg.v2.u64 {%d9, %d10}, [%d8];
  or.b64 %d11, %d9, %d10;
  or.b64 %d6, %d6, %d11;
  add.u64 %d4, %d4, 4096;
  sub.u64 %d2, %d2, 1;
  bra STEP;
END:
  setp.eq.u64 %p1, %d6, 0;
  @%p1 bra DONE;
  st.global.u64 [%d3], %d6;
DONE:
  ret;
}
)";

}  // namespace partita::drivers::green_ctx
