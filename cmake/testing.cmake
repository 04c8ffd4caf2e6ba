# How tests are registered. Every test source that goes through here is written to build/tests.txt, and the check
# `registered` compares that list with the tree: a test file that nobody runs cannot exist.
if(BUILD_TESTING)
  include(GoogleTest)
  find_package(GTest REQUIRED)
  find_library(RAPIDCHECK rapidcheck REQUIRED)
  add_library(rapidcheck INTERFACE)
  target_link_libraries(rapidcheck INTERFACE ${RAPIDCHECK})
endif()

# CBC, the independent solver some tests compare with. `cbc` always exists; PARTITA_HAVE_CBC only with the library.
add_library(cbc INTERFACE)
find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(CBC QUIET IMPORTED_TARGET cbc)
endif()
if(TARGET PkgConfig::CBC)
  target_link_libraries(cbc INTERFACE PkgConfig::CBC)
  target_compile_definitions(cbc INTERFACE PARTITA_HAVE_CBC=1)
endif()

# Names sources as tested (or fuzzed, or measured) by the build.
function(register_sources)
  foreach(source ${ARGN})
    cmake_path(ABSOLUTE_PATH source NORMALIZE)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_property(GLOBAL APPEND_STRING PROPERTY TEST_SOURCES "${source}\n")
  endforeach()
endfunction()

# Whether one of the sources (or headers) starts a thread, or includes a header of a module that does. The threads of
# base/quiet_thread.h are those of its users: without that, all that includes base would run under the thread sanitizer.
function(starts_threads result)
  set(pattern "std::(jthread|thread|async)[^_a-z:]|pthread_create|#include \"base/quiet_thread.h\"")
  get_property(modules GLOBAL PROPERTY THREADED_MODULES)
  foreach(module ${modules})
    string(APPEND pattern "|#include \"${module}/")
  endforeach()
  set(${result} OFF PARENT_SCOPE)
  list(FILTER ARGN EXCLUDE REGEX "/quiet_thread\\.h$")
  foreach(source ${ARGN})
    file(STRINGS ${source} found REGEX "${pattern}" LIMIT_COUNT 1)
    if(found)
      set(${result} ON PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# unit_test(NAME hw_test PREFIX hw SOURCES ... LIBRARIES hw [THREADS]): one binary, one ctest entry per GoogleTest test.
# The target `threaded_tests` builds, and the label `threads` selects, the binaries that start threads: those with
# THREADS and those whose sources show it, without those of gRPC: its library is not instrumented, so the sanitizer sees its
# memory but not its locks. The build `tsan` has no others.
add_custom_target(threaded_tests)
function(unit_test)
  cmake_parse_arguments(T "THREADS" "NAME;PREFIX" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT T_SOURCES)
    return()
  endif()
  register_sources(${T_SOURCES})
  add_executable(${T_NAME} ${T_SOURCES})
  set_property(GLOBAL APPEND PROPERTY TEST_TARGETS ${T_NAME})
  set_target_properties(${T_NAME} PROPERTIES UNITY_BUILD_BATCH_SIZE 0)
  target_link_libraries(${T_NAME} PRIVATE ${T_LIBRARIES} partita_warnings GTest::gmock GTest::gtest_main rapidcheck)
  # Relative, so that a second clone finds the objects of the first in ccache: tests run in the source folder.
  target_compile_definitions(${T_NAME} PRIVATE PARTITA_SOURCE_DIR=".")
  # What is tested keeps the build's flags. Tests themselves need no -O3, and of the undefined-behaviour sanitizer
  # only what checks values: its checks of pointers would be a third of the compile time, and ASan sees those too.
  target_compile_options(${T_NAME} PRIVATE -Og -fno-sanitize=vptr,object-size,pointer-overflow)
  set(properties TIMEOUT 900)  # the longest takes 60 s of an idle machine; a busy one is five times slower
  if(CMAKE_BUILD_TYPE STREQUAL Debug)  # sanitizers; base/test_rounds.h does the same for loops
    list(APPEND properties ENVIRONMENT RC_PARAMS=max_success=20)
  endif()
  starts_threads(found ${T_SOURCES})
  if((T_THREADS OR found) AND NOT "${T_LIBRARIES}" MATCHES "grpc\\+\\+")
    add_dependencies(threaded_tests ${T_NAME})
    list(APPEND properties LABELS threads)
  endif()
  gtest_discover_tests(${T_NAME} TEST_PREFIX "${T_PREFIX}." WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                       DISCOVERY_TIMEOUT 60 PROPERTIES ${properties})
endfunction()

# python_test(NAME cli.cli_test SOURCE cli_test.py [ARGUMENTS ...] [LABELS ...]): one ctest entry; the script
# finds the built program in the environment variable PARTITA. Scripts begin first, the longest of all before the
# others: they take up to minutes, most of them waiting, beside which the short tests run.
function(python_test)
  cmake_parse_arguments(T "" "NAME;SOURCE" "ARGUMENTS;LABELS" ${ARGN})
  register_sources(${T_SOURCE})
  add_test(NAME ${T_NAME} COMMAND ${Python3_EXECUTABLE} ${T_SOURCE} ${T_ARGUMENTS})
  file(SIZE ${T_SOURCE} length)
  set_tests_properties(${T_NAME} PROPERTIES TIMEOUT 900 COST ${length} LABELS "${T_LABELS}" SKIP_RETURN_CODE 77
                       ENVIRONMENT "PARTITA=${CMAKE_BINARY_DIR}/partita;PYTHONDONTWRITEBYTECODE=1")
endfunction()
