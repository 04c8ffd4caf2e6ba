# `make install`: the program, its data, completions and the man page. Completions and page are printed by the
# installed program itself, so they cannot be older than it.
include(GNUInstallDirs)
if(TARGET partita)
  install(TARGETS partita)
  install(DIRECTORY data/ DESTINATION ${CMAKE_INSTALL_DATADIR}/partita)
  install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/install_texts.cmake)
endif()
