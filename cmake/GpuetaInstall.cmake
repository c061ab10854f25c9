# What `cmake --install` puts down: the programs, the shipped profiles and
# example graphs, and the C++ client with its CMake package.
include(CMakePackageConfigHelpers)

install(TARGETS gpueta gpueta-server gpueta-calibrate gpueta-card-guard gpueta-echo gpueta-llmd)
install(DIRECTORY profiles/ DESTINATION ${CMAKE_INSTALL_DATADIR}/gpueta/profiles FILES_MATCHING PATTERN "*.profile")
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/gpueta/examples)
install(FILES LICENSE THIRD_PARTY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(TARGETS gpueta_client gpueta_grpc gpueta_proto EXPORT gpueta FILE_SET headers)
install(DIRECTORY ${PROJECT_BINARY_DIR}/generated/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.pb.h")
install(DIRECTORY proto/ DESTINATION ${CMAKE_INSTALL_DATADIR}/gpueta/proto FILES_MATCHING PATTERN "*.proto")

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/gpueta)
install(EXPORT gpueta NAMESPACE gpueta:: DESTINATION ${package})
configure_package_config_file(cmake/gpuetaConfig.cmake.in gpuetaConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(gpuetaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gpuetaConfig.cmake ${PROJECT_BINARY_DIR}/gpuetaConfigVersion.cmake
              cmake/FindgRPC.cmake DESTINATION ${package})
