# `make install`: the program, its data, completions and the man page. Completions and page are printed by the
# installed program itself, so they cannot be older than it.
include(GNUInstallDirs)
if(TARGET partita)
  install(TARGETS partita)
  install(DIRECTORY data/ DESTINATION ${CMAKE_INSTALL_DATADIR}/partita)
  # Where `partita remote run` looks, beside its own folder.
  install(TARGETS partita_remote cudart_shim_12 cudart_shim_13 cuda_shim LIBRARY DESTINATION lib/partita/remote)
  install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/install_texts.cmake)
endif()
