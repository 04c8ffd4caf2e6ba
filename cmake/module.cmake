# module(NAME hw DEPENDS base [LIBRARIES fmt::fmt]): one folder under src/, one static library, one line in the
# layer table. DEPENDS is the only place where an edge of the layer graph is written. A nested folder is named
# with a slash: planners/serving. LIBRARIES are third-party and private to the module unless it is base.
function(module)
  cmake_parse_arguments(M "" "NAME" "DEPENDS;LIBRARIES" ${ARGN})
  string(REPLACE "/" "_" target ${M_NAME})
  string(REPLACE "/" "_" dependencies "${M_DEPENDS}")
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  file(GLOB headers CONFIGURE_DEPENDS *.h)
  file(GLOB tests CONFIGURE_DEPENDS *_test.cc)
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  add_library(${target} STATIC ${sources})
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src FILES ${headers})
  target_link_libraries(${target} PUBLIC ${dependencies} ${M_LIBRARIES} PRIVATE partita_warnings)

  # Link every object of the module against its declared dependencies only: an undeclared use is an undefined symbol.
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/link_alone.cc "int main() { return 0; }\n")
  add_executable(${target}_links_alone ${CMAKE_CURRENT_BINARY_DIR}/link_alone.cc)
  target_link_libraries(${target}_links_alone PRIVATE "$<LINK_LIBRARY:WHOLE_ARCHIVE,${target}>")

  if(tests)
    add_executable(${target}_test ${tests})
    target_link_libraries(${target}_test PRIVATE ${target} partita_warnings GTest::gtest_main rapidcheck)
    target_compile_definitions(${target}_test PRIVATE PARTITA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    gtest_discover_tests(${target}_test TEST_PREFIX "${M_NAME}." DISCOVERY_TIMEOUT 60)
  endif()

  list(JOIN M_DEPENDS " " line)
  set_property(GLOBAL APPEND_STRING PROPERTY LAYERS "${M_NAME}: ${line}\n")
  set_property(GLOBAL APPEND PROPERTY MODULE_TARGETS ${target})
endfunction()
