# What makes builds fast and is used when present: ccache, and the linker lld.
# Paths below the source folder are told to the cache as relative ones, so that a second clone anywhere compiles nothing.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                  CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
# mold 1.10 (Debian 12) made programs that do not start, and did not end on one, as the sizes of their parts fell out.
find_program(LLD ld.lld)
if(LLD)
  add_link_options(-fuse-ld=lld)
endif()
# Programs load the libraries that they use, and no others.
add_link_options(-Wl,--as-needed)
# g++ sweeps its memory whenever it has doubled, from 128 MB on: a tenth of its time. Here from 1 GB on.
add_compile_options($<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1000000>)
# What CHECK says names a source from here, so that objects do not depend on where the tree lies: else a second clone's unity
# units, which include sources by absolute path, would not be found in ccache.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>)
