# module(NAME hw DEPENDS base [LIBRARIES fmt::fmt]): one folder under src/, one static library, one line in the
# layer table. DEPENDS is the only place where an edge of the layer graph is written. A nested folder is named
# with a slash: planners/serving. LIBRARIES are third-party libraries. GLUE is a module that reads, writes and waits
# rather than computes: release compiles it at -Og, in half of the time. BUSY is such a one that each request or launch goes
# through: at -O1.
add_library(partita_warnings INTERFACE)
target_compile_options(partita_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow
                                                  $<$<CXX_COMPILER_ID:GNU>:-Werror>)
# g++ 12 sees overlapping copies in inlined std::string concatenations that have none (GCC bug 105651).
target_compile_options(partita_warnings INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# Under sanitizers it takes their bookkeeping for uses of uninitialised values; release keeps the warning.
target_compile_options(partita_warnings INTERFACE $<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Debug>>:-Wno-maybe-uninitialized>)
# A unit of several sources includes them, so g++ takes a source's own anonymous namespace for that of a header.
if(CMAKE_UNITY_BUILD)
  target_compile_options(partita_warnings INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  # The bug 105651 again: what comes from a precompiled header no longer counts as the system's. `plain` keeps the warning.
  target_compile_options(partita_warnings INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>)
endif()

# At -Og g++ 12 takes members of empty optionals for uninitialised values that are used; `plain` looks for such with -O1.
if(CMAKE_UNITY_BUILD)
  set(glue_options $<$<CONFIG:Release>:-Og> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
else()
  set(glue_options $<$<CONFIG:Release>:-O1>)
endif()
# Checks of pointers, which ASan makes too, are a quarter of what glue takes to compile under sanitizers.
list(APPEND glue_options $<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Debug>>:-fno-sanitize=vptr,object-size,pointer-overflow>)

function(module)
  cmake_parse_arguments(M "GLUE;BUSY" "NAME" "DEPENDS;LIBRARIES" ${ARGN})
  string(REPLACE "/" "_" target ${M_NAME})
  string(REPLACE "/" "_" dependencies "${M_DEPENDS}")
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  file(GLOB headers CONFIGURE_DEPENDS *.h)
  file(GLOB tests CONFIGURE_DEPENDS *_test.cc)
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  add_library(${target} STATIC ${sources})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX  # a module may be headers only
                                             UNITY_BUILD_BATCH_SIZE 0)  # one unit per module
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src FILES ${headers})
  # A source includes its own header first (tools/check_tidy.py), so only headers without one are to be tried alone.
  foreach(source ${sources})
    string(REGEX REPLACE "cc$" "h" header ${source})
    list(REMOVE_ITEM headers ${header})
  endforeach()
  if(headers)
    target_sources(${target} PUBLIC FILE_SET alone TYPE HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src FILES ${headers})
    set_target_properties(${target} PROPERTIES INTERFACE_HEADER_SETS_TO_VERIFY alone)
  else()
    set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS OFF)
  endif()
  if(M_GLUE)
    target_compile_options(${target} PRIVATE ${glue_options})
  elseif(M_BUSY)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  target_link_libraries(${target} PUBLIC ${dependencies} ${M_LIBRARIES} PRIVATE partita_warnings)

  list(JOIN M_DEPENDS " " line)
  set_property(GLOBAL APPEND_STRING PROPERTY LAYERS "${M_NAME}: ${line}\n")
  set_property(GLOBAL APPEND PROPERTY MODULE_NAMES ${M_NAME})
  set_property(GLOBAL APPEND PROPERTY MODULE_TARGETS ${target})
  if(NOT BUILD_TESTING)
    return()
  endif()
  if(NOT CMAKE_BUILD_TYPE STREQUAL Debug)  # once is enough, and cheaper without sanitizers
    links_alone(${target})
  endif()
  starts_threads(threads ${sources} ${headers})
  if(threads)
    set_property(GLOBAL APPEND PROPERTY THREADED_MODULES ${M_NAME})
    set(threads THREADS)
  else()
    set(threads "")
  endif()
  unit_test(NAME ${target}_test PREFIX ${M_NAME} SOURCES ${tests} LIBRARIES ${target} ${threads})
endfunction()

# Links every object of the module against its declared dependencies only: an undeclared use, which the include
# check cannot see when the function was merely declared again, is an undefined symbol.
function(links_alone target)
  set(main ${CMAKE_CURRENT_BINARY_DIR}/link_alone.cc)
  file(CONFIGURE OUTPUT ${main} CONTENT "int main() { return 0; }\n")
  add_executable(${target}_links_alone ${main})
  target_link_libraries(${target}_links_alone PRIVATE "$<LINK_LIBRARY:WHOLE_ARCHIVE,${target}>")
  add_test(NAME ${target}_links_alone COMMAND ${target}_links_alone)
  set_tests_properties(${target}_links_alone PROPERTIES LABELS house)
endfunction()
