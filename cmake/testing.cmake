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

# unit_test(NAME hw_test PREFIX hw SOURCES ... LIBRARIES hw): one binary, one ctest entry per GoogleTest test.
function(unit_test)
  cmake_parse_arguments(T "" "NAME;PREFIX" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT T_SOURCES)
    return()
  endif()
  register_sources(${T_SOURCES})
  add_executable(${T_NAME} ${T_SOURCES})
  target_link_libraries(${T_NAME} PRIVATE ${T_LIBRARIES} partita_warnings GTest::gmock GTest::gtest_main rapidcheck)
  target_compile_definitions(${T_NAME} PRIVATE PARTITA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_compile_options(${T_NAME} PRIVATE -O1)  # what is tested keeps the build's flags; tests compile a third faster
  gtest_discover_tests(${T_NAME} TEST_PREFIX "${T_PREFIX}." DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endfunction()

# python_test(NAME cli.cli_test SOURCE cli_test.py [ARGUMENTS ...] [LABELS ...]): one ctest entry; the script
# finds the built program in the environment variable PARTITA.
function(python_test)
  cmake_parse_arguments(T "" "NAME;SOURCE" "ARGUMENTS;LABELS" ${ARGN})
  register_sources(${T_SOURCE})
  add_test(NAME ${T_NAME} COMMAND ${Python3_EXECUTABLE} ${T_SOURCE} ${T_ARGUMENTS})
  set_tests_properties(${T_NAME} PROPERTIES TIMEOUT 300 LABELS "${T_LABELS}" SKIP_RETURN_CODE 77
                       ENVIRONMENT "PARTITA=${CMAKE_BINARY_DIR}/partita;PYTHONDONTWRITEBYTECODE=1")
endfunction()
