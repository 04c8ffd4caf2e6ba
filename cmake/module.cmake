# module(NAME hw DEPENDS base [TESTED_WITH ...] [LIBRARIES fmt::fmt] [FOR_TESTS file...] [PARTS folder...]): one folder of a product (node/, cuda/,
# lab/), one static library, one row of the layer table. DEPENDS is the only place where an edge is written, and says all of
# them: nothing is inherited, and what nobody uses is refused. TESTED_WITH are modules that its tests include besides.
# LIBRARIES are third-party libraries. FOR_TESTS are sources in its or its parts' testing/ that only tests and benchmarks link:
# conformance suites, fakes. A header in there is for them, too.
# PARTS are folders inside, each a part() in its own CMakeLists.txt.
# GLUE is code that reads, writes and waits rather than computes: release compiles it at -Og, in half of the time. BUSY is
# such code that each request or launch goes through: at -O1. PURE code is a function of its inputs (`purity`).
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

# A folder of sources as one library: `target` takes the sources beside the caller's CMakeLists.txt, with their headers.
function(folder_of_sources target)
  get_filename_component(product ${CMAKE_CURRENT_SOURCE_DIR} ABSOLUTE)
  cmake_path(RELATIVE_PATH product BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
  string(REGEX REPLACE "/.*" "" product ${product})
  file(GLOB headers CONFIGURE_DEPENDS *.h testing/*.h)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX  # a module may be headers only
                                             UNITY_BUILD_BATCH_SIZE 0)  # one unit per folder
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/${product} FILES ${headers})
  # Headers include those of node/, whoever may; which of them is what the check `layers` says.
  target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR}/node)
  # A source includes its own header first (tools/check_tidy.py), so only headers without one are to be tried alone.
  foreach(source ${ARGN})
    string(REGEX REPLACE "cc$" "h" header ${source})
    list(REMOVE_ITEM headers ${header})
  endforeach()
  if(headers)
    target_sources(${target} PUBLIC FILE_SET alone TYPE HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/${product} FILES ${headers})
    set_target_properties(${target} PROPERTIES INTERFACE_HEADER_SETS_TO_VERIFY alone)
  else()
    set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS OFF)
  endif()
endfunction()

# How fast the code of a folder has to be, and whether it is a pure function of its inputs.
function(kind_of_code target)
  cmake_parse_arguments(K "GLUE;BUSY;PURE" "" "" ${ARGN})
  if(K_GLUE)
    target_compile_options(${target} PRIVATE ${glue_options})
  elseif(K_BUSY)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  if(K_PURE)
    set_property(GLOBAL APPEND PROPERTY PURE_TARGETS ${target})
  endif()
endfunction()

# The unit tests of a folder, and whether they are worth a run under the thread sanitizer.
function(tests_of_folder name target libraries)
  file(GLOB sources CONFIGURE_DEPENDS *.cc testing/*.cc)
  file(GLOB headers CONFIGURE_DEPENDS *.h testing/*.h)
  file(GLOB tests CONFIGURE_DEPENDS *_test.cc)
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  starts_threads(threads ${sources} ${headers})
  if(threads)
    if(name STREQUAL base)
      message(FATAL_ERROR "a header or source of node/base starts threads: then all of the code would run under the thread sanitizer")
    endif()
    set_property(GLOBAL APPEND PROPERTY THREADED_MODULES ${name})
    set(threads THREADS)
  else()
    set(threads "")
  endif()
  foreach(library ${libraries})
    if(TARGET ${library}_for_tests)
      list(APPEND libraries ${library}_for_tests)
    endif()
  endforeach()
  unit_test(NAME ${target}_test PREFIX ${name} SOURCES ${tests} LIBRARIES ${libraries} ${threads})
endfunction()

function(module)
  cmake_parse_arguments(M "GLUE;BUSY;PURE" "NAME" "DEPENDS;TESTED_WITH;LIBRARIES;FOR_TESTS;PARTS" ${ARGN})
  string(REPLACE "/" "_" target ${M_NAME})
  string(REPLACE "/" "_" dependencies "${M_DEPENDS}")
  string(REPLACE "/" "_" tested_with "${M_TESTED_WITH}")
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(TRANSFORM M_FOR_TESTS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  add_library(${target} STATIC ${sources})
  folder_of_sources(${target} ${sources} ${M_FOR_TESTS})
  kind_of_code(${target} ${ARGN})
  target_link_libraries(${target} PUBLIC ${M_LIBRARIES} PRIVATE ${dependencies} partita_warnings)

  list(JOIN M_DEPENDS " " line)
  list(JOIN M_TESTED_WITH " " tests_line)
  set_property(GLOBAL APPEND_STRING PROPERTY LAYERS "${M_NAME}: ${line} | ${tests_line}\n")
  set_property(GLOBAL APPEND PROPERTY MODULE_TARGETS ${target})
  set_property(GLOBAL PROPERTY MODULE_OF_${target} ${M_NAME})
  set_property(GLOBAL PROPERTY DEPENDS_OF_${target} ${dependencies})
  set_property(GLOBAL PROPERTY LIBRARIES_OF_${target} ${M_LIBRARIES})
  set_property(GLOBAL PROPERTY TESTED_WITH_OF_${target} ${target} ${dependencies} ${tested_with})
  set_property(GLOBAL PROPERTY COMPILED_OF_${target} ${target})
  if(M_FOR_TESTS)
    add_library(${target}_for_tests STATIC EXCLUDE_FROM_ALL ${M_FOR_TESTS})
    target_link_libraries(${target}_for_tests PUBLIC ${target} PRIVATE ${dependencies} partita_warnings)
    set_property(GLOBAL APPEND PROPERTY FOR_TESTS ${target}_for_tests)
  endif()
  if(BUILD_TESTING)
    if(NOT CMAKE_BUILD_TYPE STREQUAL Debug)  # once is enough, and cheaper without sanitizers
      links_alone(${target})
    endif()
    tests_of_folder(${M_NAME} ${target} "${target};${dependencies};${tested_with}")
  endif()
  foreach(part ${M_PARTS})
    add_subdirectory(${part})
  endforeach()
endfunction()

# part(NAME serve/gateway [GLUE|BUSY] [PURE] [LIBRARIES ...]): a folder of the module `serve`: a unit and a test program of its
# own in the same library, with the module's edges.
function(part)
  cmake_parse_arguments(P "GLUE;BUSY;PURE" "NAME" "LIBRARIES" ${ARGN})
  string(REPLACE "/" "_" target ${P_NAME})
  string(REGEX REPLACE "/.*" "" module ${P_NAME})
  get_property(dependencies GLOBAL PROPERTY DEPENDS_OF_${module})
  get_property(libraries GLOBAL PROPERTY LIBRARIES_OF_${module})
  get_property(tested_with GLOBAL PROPERTY TESTED_WITH_OF_${module})
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  add_library(${target} OBJECT ${sources})
  folder_of_sources(${target} ${sources})
  kind_of_code(${target} ${ARGN})
  target_link_libraries(${target} PRIVATE ${dependencies} ${libraries} ${P_LIBRARIES} partita_warnings)
  target_sources(${module} PRIVATE $<TARGET_OBJECTS:${target}>)
  target_link_libraries(${module} PUBLIC ${P_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY COMPILED_OF_${module} ${target})
  if(BUILD_TESTING)
    tests_of_folder(${P_NAME} ${target} "${tested_with};${P_LIBRARIES}")
  endif()
endfunction()

# Modules that shared libraries are made of, with their parts.
function(position_independent)
  foreach(module ${ARGN})
    get_property(compiled GLOBAL PROPERTY COMPILED_OF_${module})
    set_target_properties(${compiled} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    foreach(target ${compiled})
      target_compile_options(${target} PRIVATE -fno-semantic-interposition)
    endforeach()
  endforeach()
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
