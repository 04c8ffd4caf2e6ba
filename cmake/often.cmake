# What nearly every unit includes, read once (unity builds with g++; `plain` shows what a source fails to include). Call
# often_included() once, after everything else: it gives each module, the command line and each test the precompiled
# headers that fit its flags. A changed list costs a full build; put here only what most units have, and never a header
# of ours.
set(OFTEN <algorithm> <array> <atomic> <charconv> <cmath> <cstdint> <cstring> <deque> <functional> <limits> <map> <memory>
          <mutex> <numeric> <optional> <set> <span> <string> <string_view> <tuple> <utility> <variant> <vector>
          <fmt/format.h> <tl/expected.hpp>)

# often(NAME headers [PIC] [MORE <header>...] [LIBRARIES ...]): a target that has them precompiled.
function(often name)
  cmake_parse_arguments(O "PIC" "" "MORE;LIBRARIES" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/often.cc CONTENT "")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/often.cc)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE "${O_PIC}" EXCLUDE_FROM_ALL ON)
  target_link_libraries(${name} PRIVATE fmt::fmt ${O_LIBRARIES})
  target_precompile_headers(${name} PRIVATE ${OFTEN} ${O_MORE})
endfunction()

function(often_included)
  if(NOT CMAKE_UNITY_BUILD OR NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    return()
  endif()
  often(often)
  often(often_pic PIC)
  often(often_cli MORE <CLI/CLI.hpp> LIBRARIES CLI11::CLI11)
  get_property(modules GLOBAL PROPERTY MODULE_TARGETS)
  foreach(module ${modules})
    get_property(compiled GLOBAL PROPERTY COMPILED_OF_${module})
    foreach(target ${compiled})
      get_target_property(pic ${target} POSITION_INDEPENDENT_CODE)
      if(pic)
        target_precompile_headers(${target} REUSE_FROM often_pic)
      else()
        target_precompile_headers(${target} REUSE_FROM often)
      endif()
    endforeach()
  endforeach()
  foreach(target partita_shared partita_devices partita_cli partita-lab partita-remote)
    target_precompile_headers(${target} REUSE_FROM often_cli)
  endforeach()
  target_precompile_headers(replay REUSE_FROM often)  # the fuzz targets
  if(BUILD_TESTING)
    # With a test's own flags: the headers have templates that are compiled when they are used.
    often(often_tested MORE <gmock/gmock.h> <gtest/gtest.h> <rapidcheck.h> <rapidcheck/gtest.h>
          LIBRARIES GTest::gmock GTest::gtest_main rapidcheck)
    get_property(tests GLOBAL PROPERTY TEST_TARGETS)
    foreach(test ${tests})
      target_precompile_headers(${test} REUSE_FROM often_tested)
      # g++ 12 takes <regex> for our code once it has read <functional> from here.
      target_compile_options(${test} PRIVATE -Wno-maybe-uninitialized)
    endforeach()
  endif()
endfunction()
